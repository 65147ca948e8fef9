"""One form for the per-request results of the oracle and of the production report: whole ns and counts."""

from __future__ import annotations

from typing import Any

from aisimulate.core.units import clock_ns

from .fleet import Outcome
from .request import Request

Key = tuple[str, int | None]
Record = dict[str, Any]


def oracle_records(outcome: Outcome) -> dict[Key, Record]:
    """Records of all requests that ended, by (session, turn)."""
    ended = [request for request in outcome.requests if request.status]
    return {(request.session_id, request.turn_index): _of_request(request) for request in ended}


def _of_request(request: Request) -> Record:
    tokens = request.token_ns
    return {
        "arrival": request.arrival_ns,
        "input": request.isl,
        "requested": len(request.output),
        "emitted": request.emitted,
        "scheduler": request.scheduler,
        "admissions": request.admissions,
        "first_token": tokens[0] if tokens else None,
        "second_token": tokens[1] if len(tokens) > 1 else None,
        "last_token": tokens[-1] if tokens else None,
        "terminal": request.terminal_ns,
        "status": request.status,
        "reason": request.reason,
    }


def report_records(report: dict[str, Any]) -> dict[Key, Record]:
    """Records of a report's `per_request`, by (session, turn)."""
    rows = report.get("per_request", [])
    records = {(row["session_id"], row["turn_index"]): _of_row(row) for row in rows}
    assert len(records) == len(rows), "two records of one turn"
    return records


def _of_row(row: dict[str, Any]) -> Record:
    first = as_ns(row["first_token_ms"])
    gap = as_ns(row["ttst_ms"])
    return {
        "arrival": clock_ns(float(row["arrival_time_ms"])),
        "input": row["input_length"],
        "requested": row["requested_output_length"],
        "emitted": row["output_length"],
        "scheduler": row["decode_worker_idx"],
        "admissions": [
            (as_ns(entry["at_ms"]), entry["reused_input_tokens"]) for entry in row["admission_history"]
        ],
        "first_token": first,
        "second_token": None if gap is None or first is None else first + gap,
        "last_token": as_ns(row["last_token_ms"]),
        "terminal": as_ns(row["terminal_time_ms"]),
        "status": row["terminal_status"],
        "reason": row.get("reason"),
    }


def as_ns(ms: float | None) -> int | None:
    """Whole ns of an instant or duration that may not be there."""
    return None if ms is None else round(ms * 1e6)
