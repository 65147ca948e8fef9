"""Writing a trace as Mooncake rows, whatever format it was read from (spec 02 section 2.1)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import orjson

from aisimulate.core.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.core.traffic import Session, Turn
    from aisimulate.workload.loaded import LoadedTrace


def mooncake_rows(trace: LoadedTrace) -> Iterator[str]:
    """Yield the rows, one line each, session by session in the order of the trace.

    A prompt without content ids gets ids that occur nowhere else. Reading the rows with the trace's
    `block_tokens` gives the same sessions; only the names of those that have none may differ. Raises
    UnsupportedError, before the first row, for an agentic trace, and for planned outputs whose tokens such
    rows would mix up.
    """
    if trace.graph is not None:
        raise UnsupportedError(
            "an agentic trace cannot be converted: Mooncake rows do not say which request waits for which"
        )
    _check_planned_outputs(trace)
    fresh = count(_first_unused_id(trace))
    for session in trace.sessions:
        for number, turn in enumerate(session.turns):
            row = _times(session, number) | _content(turn, trace.block_tokens, fresh) | _names(session, turn)
            yield orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE).decode()


def _times(session: Session, number: int) -> dict[str, Any]:
    if number:
        return {"delay": _plain(session.turns[number].delay_ms)}
    return {} if session.arrival_ms is None else {"timestamp": _plain(session.arrival_ms)}


def _plain(ms: float) -> float | int:
    return int(ms) if ms.is_integer() else ms


def _content(turn: Turn, block_tokens: int, fresh: Iterator[int]) -> dict[str, Any]:
    ids = turn.block_ids
    if ids is None:
        ids = [next(fresh) for _ in range(-(-turn.input_tokens // block_tokens))]
    row = {"input_length": turn.input_tokens, "output_length": turn.output_tokens, "hash_ids": list(ids)}
    return row if turn.output_ids is None else {**row, "output_token_ids": turn.output_ids}


def _names(session: Session, turn: Turn) -> dict[str, Any]:
    names: dict[str, Any] = {"request_id": turn.request_id} if turn.request_id is not None else {}
    if len(session.turns) > 1 or not (session.session_id or "").startswith("request_"):
        names["session_id"] = session.session_id
    return names | (turn.metadata or {})


def _first_unused_id(trace: LoadedTrace) -> int:
    used = (max(turn.block_ids, default=0) for s in trace.sessions for turn in s.turns if turn.block_ids)
    return max(used, default=-1) + 1


def _check_planned_outputs(trace: LoadedTrace) -> None:
    """Planned output tokens mean content ids by their number of first appearance: it must stay the same."""
    turns = [turn for session in trace.sessions for turn in session.turns]
    if all(turn.output_ids is None for turn in turns):
        return
    seen = 0
    for turn in turns:
        for content_id in turn.block_ids or ():
            if content_id > seen:
                raise UnsupportedError(
                    "output_token_ids of sessions whose rows are mixed cannot be converted: the order of the "
                    "rows would change what they stand for"
                )
            seen += content_id == seen
