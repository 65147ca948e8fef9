"""Invariants of passes, checked while the replay runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.units import to_ms
from aisimulate.replay.invariants.catalogue import Invariant
from aisimulate.replay.invariants.requests import request_name
from aisimulate.replay.observe.roster import ACTIVE

if TYPE_CHECKING:
    from aisimulate.engine.pass_view import RankPass
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker


def place(worker: WatchedWorker, rank: int, now_ns: int) -> str:
    """Name a rank at an instant for an error."""
    return f"worker {worker.index} rank {rank} at {to_ms(now_ns):g} ms"


def check_overlap(worker: WatchedWorker, last_end_ns: int, now_ns: int) -> None:
    """I8: the next pass starts now, after the one before ended."""
    if not last_end_ns <= worker.start_ns == now_ns:
        values = f"passes start at {worker.start_ns} ns, the last ended at {last_end_ns} ns"
        raise Invariant.OVERLAP.broken(place(worker, 0, now_ns), values)


def check_limits(worker: WatchedWorker, work: RankPass, now_ns: int) -> None:
    """I9: no more sequences and tokens than the rank may have in a pass."""
    most_sequences, most_tokens = worker.ranks[work.rank].limits(work)
    sequences = work.decode_batch + len(work.prefills) + len(work.replays)
    if sequences > most_sequences or work.tokens > most_tokens:
        raise Invariant.LIMITS.broken(
            place(worker, work.rank, now_ns),
            f"{sequences} sequences (limit {most_sequences}), {work.tokens} tokens (limit {most_tokens})",
        )


def check_admission(worker: WatchedWorker, work: RankPass, sequence: Sequence, now_ns: int) -> None:
    """I7: an admission is of now, into the rank the request was placed on."""
    at_ns = sequence.admissions[-1][0]
    if (at_ns, sequence.worker, sequence.rank) != (now_ns, worker.number, work.rank):
        raise Invariant.ADMISSION.broken(
            request_name(sequence),
            f"admitted at {to_ms(at_ns):g} ms on worker {sequence.worker} rank {sequence.rank}, "
            f"in a pass of {place(worker, work.rank, now_ns)}",
        )


def check_placement(worker: WatchedWorker, state: str, sequence: Sequence, now_ns: int) -> None:
    """I14: requests go to active workers only."""
    if state != ACTIVE:
        where = place(worker, sequence.rank, now_ns)
        raise Invariant.PLACEMENT.broken(request_name(sequence), f"placed on {where}, which is {state}")


def check_block_counters(worker: WatchedWorker, number: int, now_ns: int) -> None:
    """I3 and I4, by the counters alone: none is negative, and what is held where nothing runs is kept."""
    rank = worker.ranks[number]
    held, cached, capacity, running, _ = rank.gauges()
    free = rank.free_blocks
    if min(free, cached, held) < 0:
        values = f"free {free}, cached {cached}, capacity {capacity}"
        raise Invariant.BLOCKS.broken(place(worker, number, now_ns), values)
    if held > rank.kept_blocks and not running:
        raise Invariant.RELEASED.broken(place(worker, number, now_ns), f"{held} blocks are still held")


def check_tiers(worker: WatchedWorker, number: int, now_ns: int) -> None:
    """I13: host memory and disk add up."""
    problem = worker.ranks[number].tier_problem()
    if problem:
        raise Invariant.TIERS.broken(place(worker, number, now_ns), problem)


def check_block_audit(worker: WatchedWorker, number: int, now_ns: int) -> int:
    """I3: count what is held and cached block by block; return how much there was to count."""
    rank = worker.ranks[number]
    audit = rank.audit()
    _, cached, capacity, _, _ = rank.gauges()
    free = rank.free_blocks
    if audit.cached != cached or free + cached + audit.held != capacity:
        found = f"found cached {audit.cached}, held {audit.held}"
        values = f"free {free}, cached {cached}, capacity {capacity}; {found}"
        raise Invariant.BLOCKS.broken(place(worker, number, now_ns), values)
    return audit.steps
