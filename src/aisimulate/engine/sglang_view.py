"""An `SglangScheduler` for those who watch it. It knows the scheduler from the inside and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.pass_view import BlockAudit, Chunk, Gauges, RankPass
from aisimulate.engine.scheduler_view import SchedulerView
from aisimulate.engine.sglang_speculative import SpeculativeSglangScheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.engine.radix_node import RadixNode
    from aisimulate.engine.radix_pool import RadixPool
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.sglang_scheduler import SglangScheduler


class SglangRankView(SchedulerView):
    """One rank: what `RankView` asks for."""

    __slots__ = ("_begun", "_decoding")

    _rank: SglangScheduler

    def __init__(self, rank: SglangScheduler, index: int) -> None:
        super().__init__(rank, index)
        self._begun: dict[Sequence, int] = {}  # tokens of prompts in the queue that are computed already
        self._decoding: list[tuple[Sequence, int]] = []  # with drafts: decoders, and their tokens before

    # The pass that begins -----------------------------------------------------------------------------

    @property
    def is_steady(self) -> bool:
        """Whether the gauges inside the run in flight follow from those at its start.

        Planned output may be in the tree already, and then its pages are freed as it is generated.
        """
        return not self._rank.planned

    def mark(self) -> None:
        """Remember how far the prompts in the queue are."""
        self._begun = {sequence: sequence.computed for sequence in self._partials()}

    def _partials(self) -> Iterator[Sequence]:
        """List the prompts that are computed in part; the longest cached prefix may go before them."""
        return filter(_is_begun, self._rank.waiting)

    def read(self, now_ns: int) -> RankPass:
        """Describe what was planned at `now_ns`; a prompt stays in the queue until its last chunk."""
        rank = self._rank
        chunks = [self._chunk(sequence) for sequence in rank.selected]
        self._decoding = []
        if rank.run_batch and isinstance(rank, SpeculativeSglangScheduler):
            self._decoding = [(sequence, sequence.tokens) for sequence in rank.decoders.members]
        work = RankPass(self._index, rank.run_batch, rank.run_context if rank.run_batch else 0)
        work.prefills = [chunk for chunk in chunks if chunk.start < chunk.end]
        work.admitted = [chunk.sequence for chunk in chunks if chunk.sequence not in self._begun]
        work.dequeued = [sequence for sequence, _, end in chunks if end == sequence.tokens]
        work.preempted = self._newly_retracted() if rank.retracted else []
        work.rejected = rank.rejected[:]
        return work

    def _chunk(self, sequence: Sequence) -> Chunk:
        start = self._begun.get(sequence)
        return Chunk(sequence, sequence.admissions[-1][1] if start is None else start, sequence.computed)

    def _newly_retracted(self) -> list[Sequence]:
        """Find the victims of this plan: they went to the end of the queue."""
        victims = []
        for sequence in reversed(self._rank.waiting):
            admissions = len(sequence.admissions)
            if not admissions or sequence.computed or self._preempted.get(sequence) == admissions:
                break
            self._preempted[sequence] = admissions
            victims.append(sequence)
        return victims

    def decode_lengths(self, work: RankPass) -> list[int]:
        """Lengths at the start of the pass that just began of those that decode in it, or have no room to."""
        if self._rank.selected:
            return []
        passes = self._rank.decoders.passes
        decoding = [passes + sequence.base for sequence in self._rank.decoders.members]
        return decoding + [sequence.tokens for sequence in work.preempted]

    def is_decoding(self, sequence: Sequence) -> bool:
        """Whether a sequence decodes in the next pass without prefills."""
        return sequence in self._rank.decoders.members

    def limits(self, work: RankPass) -> tuple[int, int]:
        """Give the most sequences and the most tokens of such a pass."""
        params = self._rank.params
        most = params.max_num_seqs
        return most, min(params.chunked_prefill_size, params.max_prefill_tokens) if work.prefills else most

    @property
    def max_model_len(self) -> int | None:
        """Most tokens of a sequence."""
        return self._rank.params.max_model_len

    # Pages and requests -------------------------------------------------------------------------------

    def gauges(self, run_passes: int = 0) -> Gauges:
        """Read the rank as it is; in a run, as it will be when its first passes took their pages."""
        rank = self._rank
        pool, total = rank.pool, rank.params.num_gpu_blocks
        free, inactive = pool.free, pool.inactive
        if run_passes and self.is_steady:
            # What the first pass takes was taken when it began.
            free -= rank.decoders.demand(run_passes) - rank._opening
            if free < 0:
                free, inactive = 0, inactive + free
        running = rank.decoders.count + len(rank.selected)
        return Gauges(total - free - inactive, inactive, total, running, len(rank.waiting))

    @property
    def kept_blocks(self) -> int:
        """Most pages of prompts that are computed in part; they may share some."""
        size = self._rank.pool.page_size
        return sum(-(-sequence.computed // size) for sequence in self._partials())

    @property
    def extra_tokens(self) -> int:
        """Tokens of accepted drafts in the last pass."""
        if not isinstance(self._rank, SpeculativeSglangScheduler) or not self._decoding:
            return 0
        return self._rank.accepted

    def audit(self) -> BlockAudit:
        """Count the pages between two passes from what requests and tree hold, not by the counters."""
        rank = self._rank
        held = cached = steps = 0
        for node in _nodes(rank.pool):
            steps += 1
            length = _length(rank.pool, node)
            if node.ref:
                held += length
            else:
                cached += length
        for sequence, tokens in self._holding():
            steps += 1
            grows = sequence.leaf.grower is sequence
            in_tree = rank.pool._grown(sequence) if grows else sequence.inserted
            held += -(-tokens // rank.pool.page_size) - in_tree
        return BlockAudit(held, cached, steps)

    def _holding(self) -> Iterator[tuple[Sequence, int]]:
        """List the sequences that hold pages, with the tokens in them."""
        passes = self._rank.decoders.passes
        for sequence in self._rank.decoders.members:
            yield sequence, passes + sequence.base
        for sequence in self._partials():
            yield sequence, sequence.computed


def _is_begun(sequence: Sequence) -> bool:
    return sequence.computed > 0


def _length(pool: RadixPool, node: RadixNode) -> int:
    return node.len if node.grower is None else pool._grown(node.grower) - node.start


def _nodes(pool: RadixPool) -> Iterator[RadixNode]:
    """Walk all nodes below the root."""
    stack: list[RadixNode] = [*pool.root.children.values()]
    while stack:
        node = stack.pop()
        yield node
        stack += node.children.values()
