"""The end of decoders that got all their tokens, most of which end alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.sequence import COMPLETED

if TYPE_CHECKING:
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


def complete_due(rank: RankScheduler, end_ns: int) -> list[Sequence]:
    """Complete the decoders that got their last token in the pass that ended at `end_ns` (no `unusual` one).

    One that ends alone is spared the loops of `RankScheduler.complete`, which are made for many.
    """
    due = rank.decoders.pop_finished()
    sequence = due[0]
    if len(due) > 1 or not rank.ends_alone or sequence.segments is not None:
        terminal: list[Sequence] = []
        rank.complete(due, 1, end_ns, terminal)
        return terminal
    rank.pool.release_cached(sequence, sequence.tokens - 1)
    sequence.status = COMPLETED
    sequence.last_token_ns = sequence.terminal_ns = end_ns
    return due
