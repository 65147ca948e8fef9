"""What a router sees of the decoders of one rank: how much they have generated so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.run_progress import passes_by

if TYPE_CHECKING:
    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sglang_scheduler import SglangScheduler
    from aisimulate.engine.speculative import SpeculativeScheduler


class DecodingView:
    """The decoders of a rank of `worker`.

    `decays`: a block counts less, the nearer its request is to its end.
    """

    __slots__ = ("_block_size", "_decays", "_passes_by", "_rank")

    def __init__(self, rank: RankScheduler | SglangScheduler, worker: Worker, decays: bool) -> None:
        self._rank = rank
        self._block_size = rank.params.block_size
        self._decays = decays
        self._passes_by = passes_by(worker)

    def output_blocks(self, now_ns: int) -> float:
        """Count the blocks that the decoders filled with output by `now_ns`."""
        decoders, size, blocks = self._rank.decoders, self._block_size, 0.0
        passes = decoders.passes + self._passes_by(now_ns)
        for sequence in decoders.members:
            generated = passes + sequence.base - sequence.input_tokens
            weight = 1 - generated / sequence.output_tokens if self._decays else 1
            blocks += generated // size * weight
        return blocks


class UnevenDecodingView:
    """The same for a rank that keeps a list of who runs, and is looked at pass by pass."""

    __slots__ = ("_block_size", "_decays", "_rank")

    def __init__(self, rank: SpeculativeScheduler, decays: bool) -> None:
        self._rank = rank
        self._block_size = rank.params.block_size
        self._decays = decays
        rank.steps = True

    def output_blocks(self, now_ns: int) -> float:
        """Count the blocks that running requests have filled with output by `now_ns`."""
        del now_ns  # no pass ends unseen
        blocks = 0.0
        for sequence in self._rank.running:
            generated = sequence.tokens - sequence.input_tokens
            weight = 1 - generated / sequence.output_tokens if self._decays and generated else 1
            blocks += generated // self._block_size * weight
        return blocks
