"""A `SpeculativeScheduler` for those who watch it: it looks inside and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.pass_view import Chunk, Gauges, RankPass
from aisimulate.engine.vllm_view import Admissions, VllmRankView, sort_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.speculative import SpeculativeScheduler


class SpeculativeRankView(VllmRankView):
    """A rank with drafts. Its runs are looked at pass by pass, because members grow unevenly."""

    __slots__ = ("_admitted", "_before", "_counted", "_decoding")

    _rank: SpeculativeScheduler

    def __init__(self, rank: SpeculativeScheduler, index: int) -> None:
        super().__init__(rank, index)
        self._admitted = Admissions()
        self._before: list[tuple[Sequence, int]] = []  # who emits in the pass, and its tokens before
        self._counted: list[tuple[Sequence, int]] = []  # of these, whose forwards count as decoding
        self._decoding: list[Sequence] = []  # that emitted before

    @property
    def is_steady(self) -> bool:
        """Whether the gauges inside a run follow from those at its start: never."""
        return False

    @property
    def extra_tokens(self) -> int:
        """Tokens of accepted drafts in the last pass, be they more than were still to be generated."""
        return sum(self._rank.accepted_in(sequence, tokens) for sequence, tokens in self._counted)

    def mark(self) -> None:
        """Remember what `read` compares with: nothing."""

    def read(self, now_ns: int) -> RankPass:
        """Describe what was planned at `now_ns`."""
        rank = self._rank
        ready = rank.running if rank.run_batch else rank.ready
        self._before = [(sequence, sequence.tokens) for sequence in ready]
        self._decoding = [sequence for sequence in ready if sequence.decodes]
        lengths = [sequence.tokens for sequence in self._decoding]
        work = RankPass(self._index, len(lengths), sum(lengths))
        self._counted = [(sequence, tokens) for sequence, tokens in self._before if sequence.decodes]
        if rank.run_batch:
            return work
        chunks = [
            Chunk(sequence, start, sequence.computed)
            for sequence, start in rank.scheduled.items()
            if not sequence.decodes
        ]
        sort_chunks(work, chunks)
        replayed = [(sequence, end) for sequence, _, end in work.replays if end == sequence.tokens]
        known = {sequence for sequence, start, end in chunks if start == end}
        cached = [(sequence, tokens) for sequence, tokens in self._before if sequence in known]
        work.cached = [sequence for sequence, _ in cached]
        self._counted += replayed + cached
        work.dropped = [Chunk(*dropped[:3]) for dropped in self._dropped() if not dropped[3]]
        work.verified = len(self._before) - len(self._counted)
        work.preempted = self._newly_preempted() if rank.preempted else []
        # A victim of the bursts of others may have been admitted just before.
        new = [*rank.scheduled, *work.preempted]
        work.admitted = work.dequeued = [s for s in new if self._admitted.is_new(s, now_ns)]
        work.rejected = rank.rejected[:]
        return work

    def decode_lengths(self, work: RankPass) -> list[int]:
        """Lengths at the start of the pass that just began of those that decode or replay in it."""
        lengths = [sequence.tokens for sequence in self._decoding]
        others = [*(chunk.sequence for chunk in work.replays), *work.cached]
        dropped = [end for s, start, end, decodes in self._dropped() if decodes or start >= s.input_tokens]
        return [*lengths, *(sequence.tokens for sequence in others), *dropped]

    def _dropped(self) -> list[tuple[Sequence, int, int, bool]]:
        """List those that were preempted once the pass was priced, with what was scheduled for them."""
        return [] if self._rank.run_batch else self._rank.dropped

    def is_decoding(self, sequence: Sequence) -> bool:
        """Whether a sequence decodes in the next pass."""
        return sequence.decodes and sequence in self._rank.running

    def gauges(self, run_passes: int = 0) -> Gauges:
        """Read the rank as it is; blocks for bursts are held while the pass is in flight."""
        del run_passes
        rank = self._rank
        pool, total = rank.pool, rank.params.num_gpu_blocks
        running = len(rank.running) + sum(sequence.status is None for sequence in rank.done)
        held = total - pool.room
        return Gauges(held, pool.inactive, total, running, len(rank.waiting))

    def _private_blocks(self) -> Iterator[int]:
        """Count what each running request holds outside of the tree."""
        for sequence in self._rank.running:
            node = sequence.node
            yield sequence.held_blocks - (0 if node is None else node.start + node.len)
