"""Reader of BurstGPT traces: CSV of times in seconds and tokens, since release 2.0 with sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session, Turn
from aisimulate.workload.csv_rows import CsvFile
from aisimulate.workload.loaded import DEFAULT_BLOCK_TOKENS, LoadedTrace
from aisimulate.workload.problems import wrong_row
from aisimulate.workload.time_scale import scale_doubts

if TYPE_CHECKING:
    from pathlib import Path

    from aisimulate.workload.csv_rows import CsvRow

_NEEDED = ("Timestamp", "Request tokens", "Response tokens")
_OTHER = ("Session ID", "Elapsed time", "Model", "Total tokens", "Log Type")


class _Request(NamedTuple):
    line: int
    arrival_ms: float
    input_tokens: int
    output_tokens: int
    session_id: str | None
    elapsed_ms: float


def read_burstgpt(path: Path) -> LoadedTrace:
    """Read a trace, ordered by time. Rows of one `Session ID` are the turns of a session.

    A turn waits, after the previous one ended, as long as it did in the trace: until its time, less the
    previous time and `Elapsed time`. Failed requests (no response tokens) are left out and noted. Raises
    InputError naming file, line, column, value and rule.
    """
    table = CsvFile(path, _NEEDED, _OTHER)
    requests: list[_Request] = []
    failed: list[int] = []
    for row in table.rows():
        try:
            request = _request(row)
        except InputError as error:
            wrong_row(error)
            continue
        if request.output_tokens == 0:
            failed.append(row.line)
        else:
            requests.append(request)
    if failed and not requests:
        raise InputError(f"{path}: all {len(failed)} requests failed (no response tokens)")
    doubts = scale_doubts((f"{path}:{r.line}", r.arrival_ms) for r in requests)
    requests.sort(key=lambda request: request.arrival_ms)
    notes = table.notes + _failure_notes(path, failed)
    return LoadedTrace(_sessions(requests), DEFAULT_BLOCK_TOKENS, notes, doubts=doubts)


def _request(row: CsvRow) -> _Request:
    arrival_ms = row.seconds_ms("Timestamp")
    if arrival_ms is None:
        raise row.error("Timestamp is missing")
    output_tokens = row.tokens("Response tokens", 0)
    input_tokens = row.tokens("Request tokens", 1 if output_tokens else 0)
    elapsed_ms = row.seconds_ms("Elapsed time") or 0.0
    return _Request(row.line, arrival_ms, input_tokens, output_tokens, row.text("Session ID"), elapsed_ms)


def _failure_notes(path: Path, failed: list[int]) -> list[str]:
    if not failed:
        return []
    return [
        f"{path}:{failed[0]}: failed requests (no response tokens) left out: {len(failed)}, this one first"
    ]


def _sessions(requests: list[_Request]) -> list[Session]:
    sessions: list[Session] = []
    opened: dict[str, tuple[Session, float]] = {}  # with the end of the latest turn, ms
    for request in requests:
        turn = Turn(request.input_tokens, request.output_tokens)
        known = None if request.session_id is None else opened.get(request.session_id)
        if known is None:
            session = Session(request.session_id or f"request_{request.line}", [turn], request.arrival_ms)
            sessions.append(session)
        else:
            session, ended_ms = known
            turn.delay_ms = max(0.0, request.arrival_ms - ended_ms)
            session.turns.append(turn)
        if request.session_id is not None:
            opened[request.session_id] = session, request.arrival_ms + request.elapsed_ms
    return sessions
