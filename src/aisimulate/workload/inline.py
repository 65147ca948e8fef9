"""Requests written one by one in the replay spec (spec 02 section 1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.core.limits import MAX_LENGTH_TOKENS
from aisimulate.core.traffic import Session, Turn
from aisimulate.workload.limits import MAX_INSTANT_MS, MAX_TOKENS, require_whole, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

CONTENT_BLOCK_TOKENS = 1
"""Content granularity of inline requests: one id per token."""

_PROMPT_STRIDE = 1_000_003
_TOKEN_IDS = 2**32


@dataclass(slots=True)
class InlineRequest:
    """One authored request. `output_ids`, when given, sets the number of output tokens."""

    request_id: str
    arrival_ms: float
    input_tokens: int
    output_tokens: int
    input_ids: list[int] | None = None
    output_ids: list[int] | None = None
    dp_rank: int | None = None
    session_id: str | None = None
    turn_index: int | None = None
    metadata: Any = None


def inline_sessions(requests: Sequence[InlineRequest], dp_size: int) -> list[Session]:
    """Turn requests into one-turn sessions in order of arrival, equal arrivals in list order.

    Raises InputError naming `requests[i]`, field, value and rule.
    """
    _check_ids(requests)
    for index, request in enumerate(requests):
        _check(f"requests[{index}]", request, dp_size)
    # A length-only prompt differs from every other one in its first token already, so its content
    # matters only beside prompts that spell theirs out.
    spelled = any(request.input_ids is not None for request in requests)
    if spelled:
        for index, request in enumerate(requests):
            require_whole(f"requests[{index}].input_tokens", request.input_tokens, 1, MAX_LENGTH_TOKENS)
    sessions = [_session(index, request, spelled) for index, request in enumerate(requests)]
    sessions.sort(key=_arrival_ms)
    return sessions


def _arrival_ms(session: Session) -> float:
    return session.arrival_ms or 0.0


def _session(index: int, request: InlineRequest, spelled: bool) -> Session:
    turn = Turn(
        input_tokens=request.input_tokens,
        output_tokens=request.output_tokens if request.output_ids is None else len(request.output_ids),
        block_ids=_prompt(index, request) if spelled else None,
        output_ids=request.output_ids,
        request_id=request.request_id,
        dp_rank=request.dp_rank,
        metadata=request.metadata,
    )
    return Session(request.session_id, [turn], float(request.arrival_ms), request.turn_index)


def _prompt(index: int, request: InlineRequest) -> list[int]:
    """Token ids of a prompt; a length-only one counts up from a start that its list position sets."""
    if request.input_ids is not None:
        return request.input_ids
    first = index * _PROMPT_STRIDE % _TOKEN_IDS
    last = first + request.input_tokens
    if last <= _TOKEN_IDS:
        return list(range(first, last))
    return [token % _TOKEN_IDS for token in range(first, last)]


def _check_ids(requests: Sequence[InlineRequest]) -> None:
    seen: dict[str, int] = {}
    for index, request in enumerate(requests):
        if not request.request_id:
            raise InputError(f"requests[{index}].id '': must not be empty")
        first = seen.setdefault(request.request_id, index)
        if first != index:
            raise InputError(
                f"requests[{index}].id {shown(request.request_id)}: already used by requests[{first}]"
            )


def _check(where: str, request: InlineRequest, dp_size: int) -> None:
    if not 0.0 <= request.arrival_ms <= MAX_INSTANT_MS:
        rule = f"must be a number from 0 to {MAX_INSTANT_MS:g}"
        raise InputError(f"{where}.arrival_time_ms {request.arrival_ms}: {rule}")
    require_whole(f"{where}.input_tokens", request.input_tokens, 1, MAX_TOKENS)
    require_whole(f"{where}.output_tokens", request.output_tokens, 0, MAX_TOKENS)
    if request.dp_rank is not None and not 0 <= request.dp_rank < dp_size:
        raise InputError(
            f"{where}.dp_rank {request.dp_rank}: must be from 0 to {dp_size - 1} (dp_size {dp_size})"
        )
    _check_tokens(f"{where}.output_token_ids", request.output_ids)
    _check_tokens(f"{where}.input_token_ids", request.input_ids)
    if request.input_ids is not None and len(request.input_ids) != request.input_tokens:
        rule = f"must have input_tokens {request.input_tokens} ids"
        raise InputError(f"{where}.input_token_ids of length {len(request.input_ids)}: {rule}")
    _check_metadata(f"{where}.metadata", request.metadata)


def _check_tokens(where: str, ids: list[int] | None) -> None:
    if not ids:
        return
    if set(map(type, ids)) == {int} and min(ids) >= 0 and max(ids) < _TOKEN_IDS:
        return
    for position, token in enumerate(ids):
        require_whole(f"{where}[{position}]", token, 0, _TOKEN_IDS - 1)


def _check_metadata(where: str, metadata: object) -> None:
    """Check the three keys that routing reads; anything else is only echoed."""
    if not isinstance(metadata, dict):
        return
    if metadata.get("priority") is not None:
        require_whole(f"{where}.priority", metadata["priority"], -(2**31), 2**31 - 1)
    if metadata.get("strict_priority") is not None:
        require_whole(f"{where}.strict_priority", metadata["strict_priority"], 0, 2**32 - 1)
    policy_class = metadata.get("policy_class")
    if policy_class is not None and not isinstance(policy_class, str):
        raise InputError(f"{where}.policy_class {shown(policy_class)}: must be a string")
