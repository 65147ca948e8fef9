"""What can be seen of a rank at an instant: blocks, running and waiting requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aisimulate.engine.scheduler import RankScheduler


class Gauges(NamedTuple):
    """Blocks held by requests (`active`) and cached for later (`inactive`) of `total`; requests."""

    active_blocks: int
    inactive_blocks: int
    total_blocks: int
    running_requests: int
    waiting_requests: int


def read_gauges(rank: RankScheduler, run_passes: int = 0) -> Gauges:
    """Read a rank as it is; in a run, as it will be when its first `run_passes` passes took their blocks.

    New blocks come from the free ones first, then from the oldest cached ones (spec 01 section 4.3).
    """
    pool, total = rank.pool, rank.params.num_gpu_blocks
    free, inactive = pool.free, pool.inactive
    if run_passes:
        # What the first pass takes was taken when it began.
        free -= rank.decoders.demand(run_passes) - rank._opening
        if free < 0:
            free, inactive = 0, inactive + free
    running = rank.decoders.count + len(rank.joining) + (rank.partial is not None)
    if rank.unusual:
        running += sum(sequence.status is None for sequence in rank.done)
    return Gauges(total - free - inactive, inactive, total, running, len(rank.waiting))
