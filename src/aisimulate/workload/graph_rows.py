"""Fields that rows of agentic traces have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.errors import nearest
from aisimulate.core.traffic import Turn
from aisimulate.workload.block_ids import packed
from aisimulate.workload.limits import MAX_HASH_ID, MAX_INSTANT_MS, MAX_PROMPT_TOKENS, MAX_TOKENS
from aisimulate.workload.mooncake import routing_metadata

if TYPE_CHECKING:
    from aisimulate.workload.jsonl import Row


def name_of(row: Row, field: str) -> str:
    """Read a name that must be there and not blank."""
    row.given(field)
    name = row.text(field) or ""
    if not name.strip():
        raise row.wrong(field, name, "must not be empty")
    return name


def instant_ms(row: Row, field: str) -> float | None:
    """Read an instant or a duration of 0 ms or more."""
    value = row.number(field, limit=MAX_INSTANT_MS)
    if value is not None and value < 0:
        raise row.wrong(field, value, "must not be negative")
    return value


def needed_instant_ms(row: Row, field: str) -> float:
    """Read an instant or a duration that must be there."""
    row.given(field)
    return instant_ms(row, field) or 0.0


def choice(row: Row, field: str, legal: tuple[str, ...]) -> str:
    """Read one of a few words."""
    value = row.given(field)
    if value not in legal:
        hint = nearest(value, legal) if isinstance(value, str) else ""
        raise row.wrong(field, value, f"must be one of {', '.join(legal)}{hint}")
    return str(value)


def read_turn(row: Row, block_tokens: int) -> Turn:
    """Read what a row asks for; its hash_ids must be exactly those that its prompt needs."""
    ids, prompt = (
        row.wholes("hash_ids", high=MAX_HASH_ID),
        _length(row, "input_length", "input_tokens", low=1),
    )
    if ids is None:
        raise row.error("hash_ids is missing")
    needed = -(-prompt // block_tokens)
    if len(ids) != needed:
        raise row.error(
            f"hash_ids of length {len(ids)}: input_length {prompt} needs exactly {needed} blocks of "
            f"{block_tokens} tokens"
        )
    output = _length(row, "output_length", "output_tokens", low=0)
    output_ids = row.wholes("output_token_ids", high=MAX_TOKENS)
    if output_ids is not None and len(output_ids) != output:
        raise row.error(f"output_token_ids of length {len(output_ids)}: must have output_length {output} ids")
    return Turn(
        prompt,
        output,
        packed(ids),
        output_ids,
        request_id=name_of(row, "request_id"),
        metadata=routing_metadata(row),
    )


def _length(row: Row, *names: str, low: int) -> int:
    value = row.whole(*names, low=low, high=MAX_PROMPT_TOKENS)
    if value is None:
        raise row.error(f"{names[0]} is missing")
    return value
