"""Per-request records of the report (spec 02 section 8). Times in ms from the start of the replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.core.units import NS_PER_MS, to_ms
from aisimulate.replay.agentic_report import request_identities

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Sequence as ListOf

    from aisimulate.engine.sequence import Sequence
    from aisimulate.router.route import Route
    from aisimulate.workload.plays import PlaysOutcome

Record = dict[str, Any]

# Stages of disaggregated serving and router queueing: part of the record, empty in an aggregated pool.
_NO_HANDOFF: Record = dict.fromkeys(
    (
        "prefill_admit_ms",
        "source_held_ms",
        "destination_reserved_ms",
        "destination_activated_ms",
        "decode_admit_ms",
        "source_released_ms",
        "decode_reused_input_tokens",
        "prefill_route_overlap_tokens",
        "decode_route_overlap_tokens",
    )
)
_NO_OVERLAP: Record = dict.fromkeys(
    (
        "selected_overlap_blocks",
        "best_available_overlap_blocks",
        "overlap_regret_blocks",
        "placement_replica_id",
    )
)


def build_records(
    sequences: Iterable[Sequence],
    dp_size: int,
    plays: PlaysOutcome | None = None,
    routes: Mapping[int, Route] | None = None,
) -> list[Record]:
    """Records of the requests that ended, ordered by request id (none first), arrival, dispatch order.

    `routes`: what a router decided, by number of the request.
    """
    routes = routes or {}
    ended = ended_in_order(sequences)
    records = [_record(sequence, dp_size, routes.get(sequence.ordinal)) for sequence in ended]
    if plays is None:
        return records
    identities = request_identities(plays)
    return [_in_play(record, identities[record["request_id"]]) for record in records]


def _in_play(record: Record, identity: Record) -> Record:
    """Say where a request of an agentic trace belongs; it is dispatched the moment it is ready."""
    first = {"request_id": record["request_id"], "play_id": identity["play_id"]}
    dispatched = {"dispatched_at_ms": record["arrival_time_ms"]}
    named = {key: record[key] for key in ("session_id", "turn_index")}
    return {**first, **named, "agentic": identity, **record, **dispatched}


def with_scheduled(record: Record) -> Record:
    """Say when a request was first scheduled: with look-ahead, one pass before that pass began."""
    return {**record, "scheduled_ms": record["first_admit_ms"]}


def ended_in_order(sequences: Iterable[Sequence]) -> list[Sequence]:
    """Sort the requests that ended as their records are."""
    return sorted((sequence for sequence in sequences if sequence.status is not None), key=_order)


def reused_tokens(sequence: Sequence) -> int:
    """Most prompt and generated tokens found in the cache by any admission; may exceed the prompt."""
    return max((reused for _, reused in sequence.admissions), default=0)


def reuse_by_tier(sequence: Sequence) -> Record:
    """Where the first admission found its prefix, on a rank that has more than its GPU to look in."""
    host_tokens = getattr(sequence, "host_reused_tokens", None)
    if host_tokens is None:
        return {}
    return {
        "first_admission_g1_reused_input_tokens": sequence.admissions[0][1] - host_tokens,
        "first_admission_host_reused_input_tokens": host_tokens,
        "first_admission_disk_reused_input_tokens": sequence.disk_reused_tokens,
    }


def mean_gap_ms(sequence: Sequence) -> float | None:
    """TPOT: mean time between the tokens of one request; None with fewer than two tokens."""
    if sequence.first_token_ns is None or sequence.last_token_ns is None or sequence.emitted_tokens < 2:
        return None
    elapsed_ns = sequence.last_token_ns - sequence.first_token_ns
    return elapsed_ns / ((sequence.emitted_tokens - 1) * NS_PER_MS)


def _order(sequence: Sequence) -> tuple[bool, str, float, int]:
    request_id = sequence.turn.request_id
    return request_id is not None, request_id or "", sequence.arrival_ms, sequence.ordinal


def _record(sequence: Sequence, dp_size: int, route: Route | None) -> Record:
    scheduler = sequence.worker * dp_size + sequence.rank
    return {
        **identity(sequence),
        **times_of(sequence, sequence.admissions),
        "input_length": sequence.input_tokens,
        "requested_output_length": sequence.output_tokens,
        "output_length": sequence.emitted_tokens,
        "reused_input_tokens": reused_tokens(sequence),
        **reuse_by_tier(sequence),
        "prefill_worker_idx": None,
        "decode_worker_idx": scheduler,
        **_NO_HANDOFF,
        "routing_history": [placement("agg", sequence, scheduler, route)],
        **admission_summary(
            [("agg", number, at_ns, reused) for number, (at_ns, reused) in enumerate(sequence.admissions)]
        ),
        **outcome_of(sequence),
    }


def identity(sequence: Sequence) -> Record:
    """Names from the traffic; those that were not authored are left out, as is empty metadata."""
    turn = sequence.turn
    record: Record = {} if turn.request_id is None else {"request_id": turn.request_id}
    record["session_id"] = sequence.session.session_id
    record["turn_index"] = sequence.turn_index
    if turn.metadata is not None:
        record["metadata"] = turn.metadata
    record["uuid"] = str(sequence.ordinal + 1)
    return record


def times_of(sequence: Sequence, admissions: ListOf[tuple[int, int]]) -> Record:
    """Instants on the clock, but the arrival as authored; latencies are differences on the clock."""
    arrival, first, last = sequence.arrival_ns, sequence.first_token_ns, sequence.last_token_ns
    return {
        "arrival_time_ms": sequence.arrival_ms,
        "dispatched_at_ms": None,
        "first_admit_ms": to_ms(admissions[0][0]) if admissions else None,
        "terminal_time_ms": instant_ms(sequence.terminal_ns),
        "first_token_ms": instant_ms(first),
        "last_token_ms": instant_ms(last),
        "ttft_ms": _elapsed(arrival, first),
        "ttst_ms": _elapsed(first, sequence.second_token_ns),
        "e2e_latency_ms": _elapsed(arrival, last),
        "itl_ms": mean_gap_ms(sequence),
    }


def placement(pool: str, sequence: Sequence, scheduler: int, route: Route | None) -> Record:
    """How a request got to a worker; `scheduler` counts the ranks of its pool."""
    return {
        "pool": pool,
        **_wait(route),
        "logical_worker_id": sequence.worker,
        "scheduler_id": scheduler,
        "dp_rank": sequence.rank,
        "reported_overlap_tokens": 0 if route is None else route.overlap_tokens,
        **_overlap(route),
    }


def _wait(route: Route | None) -> Record:
    """Tell how long a request had to wait at the router."""
    if route is None or route.queued_ns is None or route.released_ns is None:
        wait = {"queue_entered_at_ms": None, "released_at_ms": None, "queue_wait_ms": 0.0}
        return {"outcome": "immediate", **wait}
    return {
        "outcome": "queued",
        "queue_entered_at_ms": to_ms(route.queued_ns),
        "released_at_ms": to_ms(route.released_ns),
        "queue_wait_ms": to_ms(route.released_ns - route.queued_ns),
    }


def _overlap(route: Route | None) -> Record:
    """Compare what a request found where it went with the best it could have found."""
    if route is None:
        return _NO_OVERLAP
    return {
        "selected_overlap_blocks": route.selected_blocks,
        "best_available_overlap_blocks": route.best_blocks,
        "overlap_regret_blocks": route.best_blocks - route.selected_blocks,
        "placement_replica_id": None,
    }


def admission_summary(admissions: ListOf[tuple[str, int, int, int]]) -> Record:
    """History of admissions, given as (pool, number in that pool, instant in ns, reused tokens)."""
    history = [
        {
            "admission_ordinal": ordinal,
            "pool_admission_ordinal": number,
            "pool": pool,
            "at_ms": to_ms(at_ns),
            "reused_input_tokens": reused,
            "is_readmission": number > 0,
        }
        for ordinal, (pool, number, at_ns, reused) in enumerate(admissions)
    ]
    return {
        "admission_history": history,
        "admission_count": len(history),
        "readmission_count": sum(number > 0 for _, number, _, _ in admissions),
        "pressure_record_ordinals": [],
    }


def outcome_of(sequence: Sequence) -> Record:
    """What became of a request, and why if it was refused."""
    if sequence.reason is not None:
        return {"terminal_status": sequence.status, "reason": sequence.reason}
    return {"terminal_status": sequence.status}


def instant_ms(ns: int | None) -> float | None:
    """Convert an instant that may not have come."""
    return None if ns is None else to_ms(ns)


def _elapsed(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else to_ms(max(0, end_ns - start_ns))
