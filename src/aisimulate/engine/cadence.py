"""A group of ranks that schedules prefills only in every N-th of its passes (spec 01 section 2.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.admission import try_admit
from aisimulate.engine.decode_set import running_order
from aisimulate.engine.group import GroupWorker
from aisimulate.engine.scheduler import RankScheduler

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import RankParams
    from aisimulate.engine.sequence import Sequence


class CadenceGroup(GroupWorker):
    """A group worker that counts its passes since it was last drained.

    In a pass whose count is not a multiple of `interval`, a rank that has something to decode leaves its
    prefills for later, unless the last pass that did not already left someone waiting.
    """

    __slots__ = ("_drained", "_interval", "_step")

    def __init__(self, ranks: list[RankScheduler], interval: int) -> None:
        super().__init__(ranks)
        self._interval = interval
        self._step = 0
        self._drained = False  # by what had arrived when the last pass was ended

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence; one that arrives when all others have left begins the count anew."""
        if self._drained and sequence.arrival_ns >= self.end_ns:
            self._step = 0
        self._drained = False
        super().submit(sequence)

    def start(self, now_ns: int) -> bool:
        """Begin a group pass, or a run of them, at `now_ns`; return whether there was work for one."""
        late = self._step % self._interval > 0
        for rank in self.ranks:
            rank.deferring = late and not rank.capacity_bound and rank.has_decoder
        return super().start(now_ns)

    def _limit(self, passes: int) -> int:
        """Cut a run at the next pass that schedules prefills, if one is waiting for it."""
        if any(rank.deferring and self._defers(rank) for rank in self._active):
            return min(passes, self._interval - self._step % self._interval)
        return passes

    def _defers(self, rank: RankScheduler) -> bool:
        """Whether a rank has prefills that wait for a pass which schedules them."""
        return bool(rank.waiting or rank.partial)

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        self._step += self._passes
        terminal = super().finish()
        self._drained = self._is_drained()
        return terminal

    def _is_drained(self) -> bool:
        """Whether all requests have left."""
        return not self.has_work


class CadenceScheduler(RankScheduler):
    """The vLLM scheduler of a rank whose group keeps a cadence.

    A request that needs one token at most enters while an unfinished prefill waits, and decodes behind it.
    """

    __slots__ = ()

    def __init__(self, params: RankParams, timer: PassTimer) -> None:
        super().__init__(params, timer)
        self.try_admit = _try_admit
        self.runs_on = False  # whether somebody waits is noted after each pass

    def plan(self, now_ns: int) -> int:
        """Begin a pass at `now_ns`; return the number of identical passes planned (1 unless a run)."""
        passes = super().plan(now_ns)
        if not self.deferring and not self.preempted:
            self.capacity_bound = bool(self.waiting)
        return passes

    def _needs_steps(self, opening: int) -> bool:
        """Whether a pass has to be scheduled request by request."""
        self.overtaken = self.overtaken and self.partial is not None
        self.watchful = self.overtaken or self.fifo
        return self.overtaken or (self.fifo and super()._needs_steps(opening))

    def _emit_joining(self, end_ns: int, finished: list[Sequence]) -> None:
        """Let the sequences whose prefill ended emit a token; one that was overtaken decodes at its place."""
        super()._emit_joining(end_ns, finished)
        if self.overtaken:
            self.decoders.restore_order()

    def complete(
        self, sequences: list[Sequence], uncomputed: int, end_ns: int, terminal: list[Sequence]
    ) -> None:
        """End sequences in running order."""
        if self.decoders.reordered:
            sequences.sort(key=running_order)
        super().complete(sequences, uncomputed, end_ns, terminal)


def _try_admit(rank: RankScheduler, sequence: Sequence, now_ns: int) -> bool:
    """Admit the head by the vLLM rule, noting whether it overtakes an unfinished prefill."""
    overtakes = rank.partial is not None
    if not try_admit(rank, sequence, now_ns):
        return False
    if overtakes:
        note_overtaking(rank, sequence)
    return True


def note_overtaking(rank: RankScheduler, sequence: Sequence) -> None:
    """Note that a sequence, just admitted behind an unfinished prefill, may decode before it."""
    if rank.partial is not None and rank.joining and rank.joining[-1] is sequence:
        rank.overtaken = rank.watchful = rank.decoders.reordered = rank.unusual = True
