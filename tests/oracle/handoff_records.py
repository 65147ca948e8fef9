"""One form for the per-request results of both replays of a disaggregated fleet: whole ns and counts."""

from __future__ import annotations

from copy import copy
from typing import Any

from .disagg import DisaggFleet
from .fleet import Outcome
from .handoff import Handoff
from .records import Key, Record, as_ns, oracle_records, report_records

STAGES = {
    "held_ns": "source_held_ms",
    "reserved_ns": "destination_reserved_ms",
    "activated_ns": "destination_activated_ms",
    "released_ns": "source_released_ms",
}


def handoff_records(fleet: DisaggFleet) -> dict[Key, Record]:
    """Records of all requests that ended, by (session, turn)."""
    plain = oracle_records(merged(fleet))
    ended = {
        (handoff.request.session_id, handoff.request.turn_index): handoff
        for handoff in fleet.handoffs
        if handoff.request.status
    }
    return {key: plain[key] | _stages(handoff) for key, handoff in ended.items()}


def merged(fleet: DisaggFleet) -> Outcome:
    """The requests with the admissions of both workers, for what is computed of every request."""
    requests = []
    for handoff in fleet.handoffs:
        request = copy(handoff.request)
        request.admissions = handoff.source.admissions + request.admissions
        requests.append(request)
    return Outcome(requests, fleet.now_ns)


def _stages(handoff: Handoff) -> Record:
    return {
        "prefill": handoff.source.scheduler if handoff.reached_prefill else None,
        "scheduler": None if handoff.decode is None else handoff.request.scheduler,
        **{name: getattr(handoff, name) for name in STAGES},
    }


def report_handoffs(report: dict[str, Any]) -> dict[Key, Record]:
    """The same of a report's `per_request`."""
    plain = report_records(report)
    rows = {(row["session_id"], row["turn_index"]): row for row in report.get("per_request", [])}
    return {key: record | _row_stages(rows[key]) for key, record in plain.items()}


def _row_stages(row: dict[str, Any]) -> Record:
    return {
        "prefill": row["prefill_worker_idx"],
        **{name: as_ns(row[key]) for name, key in STAGES.items()},
    }
