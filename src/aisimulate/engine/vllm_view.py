"""A `RankScheduler` for those who watch it. It knows the scheduler from the inside and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.ending import blocks_given_back, ending_in_pass
from aisimulate.engine.pass_view import BlockAudit, Chunk, Gauges, RankPass
from aisimulate.engine.run_pool import Node
from aisimulate.engine.scheduler_view import SchedulerView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.engine.run_pool import RunPool
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


class VllmRankView(SchedulerView):
    """One rank: what `RankView` asks for."""

    __slots__ = ("_marked",)

    _rank: RankScheduler

    def __init__(self, rank: RankScheduler, index: int) -> None:
        super().__init__(rank, index)
        self._marked: tuple[Sequence | None, int, int] = (None, 0, 0)

    # The pass that begins -----------------------------------------------------------------------------

    @property
    def is_steady(self) -> bool:
        """Whether the gauges inside the run in flight follow from those at its start: always."""
        return True

    @property
    def extra_tokens(self) -> int:
        """Tokens of accepted drafts in the last pass: there are none."""
        return 0

    def mark(self) -> None:
        """Remember how far the unfinished prefill is."""
        self._marked = self._progress()

    def _progress(self) -> tuple[Sequence | None, int, int]:
        partial = self._rank.partial
        return (None, 0, 0) if partial is None else (partial, partial.computed, len(partial.admissions))

    def read(self, now_ns: int) -> RankPass:
        """Describe what was planned at `now_ns`."""
        rank = self._rank
        if rank.run_batch:
            return RankPass(self._index, rank.run_batch, rank.run_context)
        chunks = [Chunk(sequence, sequence.chunk_start, sequence.computed) for sequence in self._computing()]
        lengths = self._decode_lengths()
        work = RankPass(self._index, len(lengths), sum(lengths))
        sort_chunks(work, chunks)
        work.admitted = [s for s, start, _ in chunks if s.admissions[-1] == (now_ns, start)]
        work.dequeued = work.admitted
        work.preempted = self._newly_preempted() if rank.preempted else []
        work.rejected = rank.rejected[:]
        work.cached = [s for s, start, end in chunks if start == end < s.end_tokens]
        return work

    def _computing(self) -> list[Sequence]:
        rank = self._rank
        computing = [*rank.joining, *rank.done]
        if rank.partial is not None and self._progress() != self._marked:
            computing.append(rank.partial)
        return computing

    def _decode_lengths(self) -> list[int]:
        passes, held_back = self._rank.decoders.passes, dict.fromkeys(self._rank.held_back)
        return [passes + s.base for s in self._rank.decoders.members if s not in held_back]

    def _newly_preempted(self) -> list[Sequence]:
        """Find the victims of this plan: they went to the head of the queue, before earlier ones."""
        victims = []
        for sequence in self._rank.waiting:
            admissions = len(sequence.admissions)
            if not admissions or self._preempted.get(sequence) == admissions:
                break
            self._preempted[sequence] = admissions
            victims.append(sequence)
        return victims

    def decode_lengths(self, work: RankPass) -> list[int]:
        """Lengths at the start of the pass that just began of those that decode or replay in it."""
        others = [*(chunk.sequence for chunk in work.replays), *work.cached]
        return [*self._decode_lengths(), *(sequence.tokens for sequence in others)]

    def is_decoding(self, sequence: Sequence) -> bool:
        """Whether a sequence decodes in the next pass."""
        return sequence in self._rank.decoders.members

    def limits(self, work: RankPass) -> tuple[int, int]:
        """Give the most sequences and the most tokens of any pass."""
        del work
        params = self._rank.params
        return params.max_num_seqs, params.max_num_batched_tokens

    @property
    def max_model_len(self) -> int | None:
        """Most tokens of a sequence. TensorRT-LLM cuts outputs to what the pool can hold."""
        params = self._rank.params
        if params.backend != "trtllm":
            return params.max_model_len
        return min(params.max_model_len or params.total_kv_tokens, params.total_kv_tokens)

    # Blocks and requests ------------------------------------------------------------------------------

    def gauges(self, run_passes: int = 0) -> Gauges:
        """Read the rank as it is; in a run, as it will be when its first passes took their blocks.

        New blocks come from the free ones first, then from the oldest cached ones (spec 01 section 4.3).
        """
        rank = self._rank
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

    def gauges_in_pass(self, passes: int) -> Gauges:
        """Read the rank inside of pass number `passes` of those in flight: who ends with it is gone.

        Blocks and seats are given back in the pass that emits the last token (spec 01 section 3.1).
        """
        gauges = self.gauges(passes if self.run_batch else 0)
        ending = ending_in_pass(self._rank, passes)
        free, cached = blocks_given_back(self._rank, ending)
        return gauges._replace(
            active_blocks=gauges.active_blocks - free - cached,
            inactive_blocks=gauges.inactive_blocks + cached,
            running_requests=gauges.running_requests - self._seats_of(ending),
        )

    def _seats_of(self, ending: list[tuple[Sequence, int]]) -> int:
        rank = self._rank
        away = 0 if rank.unusual else len(rank.done)  # do not count as running in the first place
        return len(ending) - away

    @property
    def kept_blocks(self) -> int:
        """Most blocks that are held for requests that do not run yet."""
        return 0

    def audit(self) -> BlockAudit:
        """Count the blocks between two passes from what requests and cache hold, not by the counters."""
        rank = self._rank
        held = cached = steps = 0
        rank.pool.settle()
        for node in _nodes(rank.pool.root):
            steps += 1
            if node.ref:
                held += node.len
        for entry in _evictable(rank.pool):
            steps += 1
            cached += entry.len
        for private in self._private_blocks():
            steps += 1
            held += private
        return BlockAudit(held, cached, steps)

    def _private_blocks(self) -> Iterator[int]:
        """Count what each running request holds outside of the tree."""
        for sequence, computed in self._running():
            node_end = 0 if sequence.node is None else sequence.node.start + sequence.node.len
            # The last block of a restored prompt is there before it is computed once more.
            yield max(0, -(-computed // self._rank.block_size) - node_end)

    def _running(self) -> Iterator[tuple[Sequence, int]]:
        """List running requests with the tokens whose KV exists: the last token of a decoder has none yet."""
        rank = self._rank
        for sequence in rank.decoders.members:
            yield sequence, rank.decoders.passes + sequence.base - 1
        if rank.partial is not None:
            yield rank.partial, rank.partial.computed


class Admissions:
    """Tells who was admitted since it was looked at last."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[Sequence, int] = {}  # admissions of each

    def is_new(self, sequence: Sequence, now_ns: int) -> bool:
        """Whether a sequence was admitted now, and nobody asked since."""
        number = len(sequence.admissions)
        if number == self._seen.get(sequence, 0):
            return False
        self._seen[sequence] = number
        return sequence.admissions[-1][0] == now_ns


def sort_chunks(work: RankPass, chunks: list[Chunk]) -> None:
    """File chunks of prompts, and those of what was generated before a preemption."""
    work.prefills = [chunk for chunk in chunks if chunk.start < chunk.sequence.input_tokens]
    work.replays = [chunk for chunk in chunks if chunk.sequence.input_tokens <= chunk.start < chunk.end]


def _nodes(root: Node) -> Iterator[Node]:
    """Walk all nodes below the root, second copies included."""
    stack = [root]
    while stack:
        node = stack.pop()
        below = [*node.children.values()]
        for copies in (node.shadows or {}).values():
            below += copies
        yield from below
        stack += below


def _evictable(pool: RunPool) -> Iterator[Node | Sequence]:
    """List the entries of the eviction order that are not void: of each, the first `stale` ones are."""
    void: dict[Node | Sequence, int] = {}
    for entry in pool._order:
        skipped = void.get(entry, 0)
        if skipped < entry.stale:
            void[entry] = skipped + 1
        else:
            yield entry
