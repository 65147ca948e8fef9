"""What one rank does in the passes that its worker has in flight, read once when they begin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


class Chunk(NamedTuple):
    """Tokens [start, end) of a prompt (after a preemption also of what it generated) computed in a pass."""

    sequence: Sequence
    start: int
    end: int


@dataclass(slots=True)
class RankPass:
    """One pass, or the first pass of a run in which only `decode_context` grows.

    `decode_batch` sequences decode, `decode_context` tokens long together when the pass begins. Beside them
    `prefills` are computed, and `replays`: what was generated before a preemption, behind the prompt.
    `admitted`, `preempted` and `rejected` left or entered the queue at the start.
    """

    rank: int
    decode_batch: int
    decode_context: int
    prefills: list[Chunk] = field(default_factory=list)
    replays: list[Chunk] = field(default_factory=list)
    admitted: list[Sequence] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)
    rejected: list[Sequence] = field(default_factory=list)

    @property
    def prefill_tokens(self) -> int:
        """Tokens of all prefills."""
        return sum(chunk.end - chunk.start for chunk in self.prefills)

    @property
    def forwards(self) -> int:
        """Sequences that get a token from a decode forward of one such pass."""
        return self.decode_batch + sum(end == sequence.tokens for sequence, _, end in self.replays)


class PassReader:
    """Reads the passes of one rank. `mark()` has to be called before each plan, `read()` after it."""

    __slots__ = ("_index", "_marked", "_preempted", "rank")

    def __init__(self, rank: RankScheduler, index: int) -> None:
        self.rank = rank
        self._index = index
        self._marked: tuple[Sequence | None, int, int] = (None, 0, 0)
        self._preempted: dict[Sequence, int] = {}  # admissions of a sequence when it was preempted last

    def mark(self) -> None:
        """Remember how far the unfinished prefill is."""
        self._marked = self._progress()

    def _progress(self) -> tuple[Sequence | None, int, int]:
        partial = self.rank.partial
        return (None, 0, 0) if partial is None else (partial, partial.computed, len(partial.admissions))

    def read(self, now_ns: int) -> RankPass:
        """Describe what was planned at `now_ns`."""
        rank = self.rank
        if rank.run_batch:
            return RankPass(self._index, rank.run_batch, rank.run_context)
        held_back = rank.held_back
        decoders = rank.decoders
        chunks = [Chunk(sequence, sequence.chunk_start, sequence.computed) for sequence in self._computing()]
        return RankPass(
            self._index,
            decoders.count - len(held_back),
            decoders.context_tokens - sum(decoders.passes + sequence.base for sequence in held_back),
            [chunk for chunk in chunks if chunk.start < chunk.sequence.input_tokens],
            [chunk for chunk in chunks if chunk.sequence.input_tokens <= chunk.start < chunk.end],
            [sequence for sequence, start, _ in chunks if sequence.admissions[-1] == (now_ns, start)],
            self._newly_preempted() if rank.preempted else [],
            rank.rejected[:],
        )

    def _computing(self) -> list[Sequence]:
        rank = self.rank
        computing = [*rank.joining, *rank.done]
        if rank.partial is not None and self._progress() != self._marked:
            computing.append(rank.partial)
        return computing

    def _newly_preempted(self) -> list[Sequence]:
        """Find the victims of this plan: they went to the head of the queue, before earlier ones."""
        victims = []
        for sequence in self.rank.waiting:
            admissions = len(sequence.admissions)
            if not admissions or self._preempted.get(sequence) == admissions:
                break
            self._preempted[sequence] = admissions
            victims.append(sequence)
        return victims
