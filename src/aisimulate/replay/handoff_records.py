"""Records of requests that were handed from a prefill to a decode worker (spec 02 section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.units import to_ms
from aisimulate.engine.sequence import FAILED
from aisimulate.replay.records import (
    Record,
    admission_summary,
    ended_in_order,
    identity,
    instant_ms,
    outcome_of,
    placement,
    reuse_by_tier,
    reused_tokens,
    times_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisimulate.engine.handoff import Handoff
    from aisimulate.engine.sequence import Sequence
    from aisimulate.router.route import Route, Routes


def build_handoff_records(
    sequences: Iterable[Sequence], prefill_dp: int, decode_dp: int, routes: Routes | None = None
) -> list[Record]:
    """Records of the requests that ended, in the order of `build_records`.

    `prefill_dp` and `decode_dp` are the ranks of one worker of each pool.
    """
    known = {pool: decided for pool, decided in (routes or {}).items() if decided is not None}
    records = []
    for sequence in ended_in_order(sequences):
        decided = {pool: by_request.get(sequence.ordinal) for pool, by_request in known.items()}
        records.append(_record(sequence.handoff, prefill_dp, decode_dp, decided))
    return records


def _record(handoff: Handoff, prefill_dp: int, decode_dp: int, routes: dict[str, Route | None]) -> Record:
    source, request = handoff.source, handoff.request
    of_pool = {"prefill": (source, prefill_dp), "decode": (request, decode_dp)}
    routed = {
        pool: sequence.worker * dp_size + sequence.rank
        for pool, (sequence, dp_size) in of_pool.items()
        if pool in handoff.pools
    }
    return {
        **identity(request),
        **times_of(request, handoff.admissions),
        "input_length": request.input_tokens,
        "requested_output_length": request.output_tokens,
        "output_length": request.emitted_tokens,
        "reused_input_tokens": reused_tokens(source),
        **reuse_by_tier(source),
        "prefill_worker_idx": routed.get("prefill"),
        # A destination that was refused has a placement, but no worker.
        "decode_worker_idx": None if request.status == FAILED else routed.get("decode"),
        **_stages(handoff, routes),
        "routing_history": [
            placement(pool, of_pool[pool][0], routed[pool], routes.get(pool)) for pool in handoff.pools
        ],
        **admission_summary([*_admissions("prefill", source), *_admissions("decode", request)]),
        **outcome_of(request),
    }


def _stages(handoff: Handoff, routes: dict[str, Route | None]) -> Record:
    source, request = handoff.source, handoff.request
    overlap = {pool: 0 if route is None else route.overlap_tokens for pool, route in routes.items()}
    return {
        "prefill_admit_ms": to_ms(source.admissions[0][0]) if source.admissions else None,
        "source_held_ms": instant_ms(handoff.held_ns),
        "destination_reserved_ms": instant_ms(handoff.reserved_ns),
        "destination_activated_ms": instant_ms(handoff.activated_ns),
        "decode_admit_ms": to_ms(request.admissions[0][0]) if request.admissions else None,
        "source_released_ms": instant_ms(handoff.released_ns),
        "decode_reused_input_tokens": reused_tokens(request) if request.admissions else None,
        "prefill_route_overlap_tokens": overlap.get("prefill", 0) if "prefill" in handoff.pools else None,
        "decode_route_overlap_tokens": overlap.get("decode", 0) if "decode" in handoff.pools else None,
    }


def _admissions(pool: str, sequence: Sequence) -> Iterator[tuple[str, int, int, int]]:
    for ordinal, (at_ns, reused) in enumerate(sequence.admissions):
        yield pool, ordinal, at_ns, reused
