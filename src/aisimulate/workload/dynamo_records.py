"""Records of Dynamo request traces (`dynamo.request.trace.v1`, spec 02 section 2.4): requests as served."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError, nearest
from aisimulate.core.units import round_half_away
from aisimulate.workload.block_ids import packed
from aisimulate.workload.jsonl import Row, parse_line
from aisimulate.workload.limits import MAX_HASH_ID, MAX_INSTANT_MS, MAX_TOKENS, shown
from aisimulate.workload.lines import numbered_lines
from aisimulate.workload.problems import wrong_row

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence
    from pathlib import Path

SCHEMA = "dynamo.request.trace.v1"

_REQUEST = "request_end"
_TOOLS = ("tool_end", "tool_error")
_SKIPPED = ("request_payload", "tool_start")
_EVENTS = (_REQUEST, *_TOOLS, *_SKIPPED)


@dataclass(slots=True)
class RequestEnd:
    """A request that ended; instants in ms, `place` is file and line. `session_id` only in agentic traces."""

    place: str
    request_id: str
    start_ms: float
    end_ms: float
    input_tokens: int
    output_tokens: int
    hashes: array[int]
    block_tokens: int
    session_id: str | None = None
    parent_session_id: str | None = None
    model: str | None = None


@dataclass(slots=True)
class ToolEnd:
    """A tool call that ended, as its row has it; only agentic traces use it."""

    row: Row
    event_type: str


@dataclass(slots=True)
class DynamoRecords:
    """All that a trace says: requests ordered by (start, end, id), tool calls in file order, and notes."""

    requests: list[RequestEnd] = field(default_factory=list)
    tools: list[ToolEnd] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_records(paths: Sequence[Path]) -> DynamoRecords:
    """Read the records of one trace in one or several files.

    Lines that are JSON but no object are skipped and noted. Raises InputError for a wrong line, an id used
    twice, block sizes that differ, an agent_context on some requests only, and a trace without requests.
    """
    records = DynamoRecords()
    for path in paths:
        _read_file(path, records)
    if not records.requests:
        names = ", ".join(str(path) for path in paths)
        raise InputError(f"{names}: the trace contains no {_REQUEST} records")
    _check_ids(records.requests)
    _check_alike(records.requests)
    records.requests.sort(key=lambda request: (request.start_ms, request.end_ms, request.request_id))
    return records


def _read_file(path: Path, records: DynamoRecords) -> None:
    skipped: list[int] = []
    for number, line in numbered_lines(path):
        if line.isspace():
            continue
        try:
            value = parse_line(path, number, line)
            if isinstance(value, dict):
                _take(Row(path, number, value.get("event", value)), records)
            else:
                skipped.append(number)
        except InputError as error:
            wrong_row(error)
    if skipped:
        more = f" (and {len(skipped) - 1} more)" if len(skipped) > 1 else ""
        records.notes.append(f"{path}:{skipped[0]}: not a JSON object, skipped{more}")


def _take(row: Row, records: DynamoRecords) -> None:
    """Sort in a record, taken out of its `{"event": ...}` wrapper."""
    event = _event_type(row)
    if event in _SKIPPED:
        return
    _check_schema(row)
    if event == _REQUEST:
        records.requests.append(_request_end(row))
    else:
        _event_ms(row)
        records.tools.append(ToolEnd(row, event))


def _event_type(row: Row) -> str:
    event = row.given("event_type")
    if event not in _EVENTS:
        hint = nearest(event, _EVENTS) if isinstance(event, str) else ""
        raise row.error(f"event_type {shown(event)}: must be one of {', '.join(_EVENTS)}{hint}")
    return str(event)


def _check_schema(row: Row) -> None:
    schema = row.given("schema")
    if schema != SCHEMA:
        raise row.error(f"schema {shown(schema)}: must be {SCHEMA!r}")


def _request_end(row: Row) -> RequestEnd:
    request = row.needed("request")
    replay = request.needed("replay")
    start_ms, end_ms = _times_ms(row, request)
    block_tokens = _whole(replay, "trace_block_size", 1)
    input_tokens, hashes = _prompt(replay, block_tokens)
    context = row.inner("agent_context")
    return RequestEnd(
        place=row.place,
        request_id=_request_id(request),
        start_ms=start_ms,
        end_ms=end_ms,
        input_tokens=input_tokens,
        output_tokens=_whole(request, "output_tokens", 0),
        hashes=hashes,
        block_tokens=block_tokens,
        session_id=None if context is None else _name(context, "session_id"),
        parent_session_id=None if context is None else context.text("parent_session_id"),
        model=request.text("model"),
    )


def _times_ms(row: Row, request: Row) -> tuple[float, float]:
    """Start and end: received and received + total where known, else counted back from the event.

    The clock of a trace has whole ms, so the total is rounded to them, as Dynamo itself does.
    """
    event_ms = _event_ms(row)
    received_ms = _instant(request, "request_received_ms")
    exact_ms = _instant(request, "total_time_ms")
    total_ms = None if exact_ms is None else round_half_away(exact_ms)
    if received_ms is None:
        return max(0.0, event_ms - (total_ms or 0)), event_ms
    return received_ms, event_ms if total_ms is None else received_ms + total_ms


def _event_ms(row: Row) -> float:
    row.given("event_time_unix_ms")
    return _instant(row, "event_time_unix_ms") or 0.0


def _instant(row: Row, name: str) -> float | None:
    value = row.number(name, limit=MAX_INSTANT_MS)
    if value is not None and value < 0:
        raise row.error(f"{row.full_name(name)} {value:g}: must not be negative")
    return value


def _prompt(replay: Row, block_tokens: int) -> tuple[int, array[int]]:
    replay.given("input_sequence_hashes")
    hashes = replay.wholes("input_sequence_hashes", high=MAX_HASH_ID) or []
    length = _whole(replay, "input_length", 1)
    capacity = len(hashes) * block_tokens
    if length > capacity:
        blocks = f"{len(hashes)} input_sequence_hashes x {block_tokens} tokens"
        name = replay.full_name("input_length")
        raise replay.error(f"{name} {length}: exceeds the capacity of {capacity} tokens ({blocks})")
    return length, packed(hashes)


def _whole(row: Row, name: str, low: int) -> int:
    row.given(name)
    return row.whole(name, low=low, high=MAX_TOKENS) or 0


def _name(row: Row, name: str) -> str:
    row.given(name)
    return row.text(name) or ""


def _request_id(request: Row) -> str:
    request_id = _name(request, "request_id")
    if not request_id.strip():
        raise request.error(f"{request.full_name('request_id')} '': must not be empty")
    return request_id


def _check_ids(requests: list[RequestEnd]) -> None:
    places: dict[str, str] = {}
    for request in requests:
        first = places.setdefault(request.request_id, request.place)
        if first is not request.place:
            problem = f"request.request_id {shown(request.request_id)}: already used at {first}"
            wrong_row(InputError(f"{request.place}: {problem}"))


def _check_alike(requests: list[RequestEnd]) -> None:
    first = requests[0]
    for request in requests:
        if request.block_tokens != first.block_tokens:
            raise InputError(
                f"{request.place}: request.replay.trace_block_size {request.block_tokens}: differs from "
                f"{first.block_tokens} at {first.place}; a trace has one block size"
            )
        if (request.session_id is None) != (first.session_id is None):
            with_context, without = (first, request) if first.session_id is not None else (request, first)
            raise InputError(
                f"{request.place}: a trace cannot mix requests with and without agent_context: request "
                f"{shown(with_context.request_id)} ({with_context.place}) has one, request "
                f"{shown(without.request_id)} ({without.place}) has none"
            )
