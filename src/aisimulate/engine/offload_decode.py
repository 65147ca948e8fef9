"""Decode workers whose ranks have host memory: what arrives is stored, and comes back after preemptions.

A prompt that was handed over is offered to the host like one computed here. Who has it is let in before all
others. Where ranks have host memory of their own, a prompt does not come into blocks that are still being
copied: its reservation waits until then. Rules: spec 01 sections 5 and 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aisimulate.engine.decode_rank import DecodeRank
from aisimulate.engine.offload_admission import admit_or_load
from aisimulate.engine.offload_group import OffloadGroup
from aisimulate.engine.offload_scheduler import Offloading
from aisimulate.engine.offload_worker import OffloadWorker

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.handoff import Handoff
    from aisimulate.engine.params import OffloadParams, RankParams
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


class OffloadDecodeRank(Offloading, DecodeRank):
    """vLLM with host memory on a decode worker."""

    __slots__ = ("_had_candidates", "host", "is_freed")

    def __init__(self, params: RankParams, timer: PassTimer, offload: OffloadParams) -> None:
        super().__init__(params, timer, offload)
        self.is_freed = self._had_candidates = False

    # Destinations ---------------------------------------------------------------------------------------

    def accept(self, handoff: Handoff) -> bool:
        """Queue a destination for its blocks; refuse one that can never have them (`reason` says why)."""
        if super().accept(handoff):
            return True
        self.host.dismiss(handoff.request)
        return False

    def reserve(self, handoff: Handoff) -> bool:
        """Hold the cached blocks of a prompt and take fresh ones that nothing reads, or do nothing."""
        sequence, pool = handoff.request, self.pool
        assert sequence.keys is not None
        match = pool.match(sequence.keys, sequence.tail_start)
        blocks = -(-sequence.input_tokens // self.block_size)
        fresh = blocks - match[0]
        if not self._has_room(match, blocks) or not pool.receive(sequence, match, fresh):
            return False
        handoff.missing_tokens = fresh * self.block_size
        return True

    @property
    def has_work(self) -> bool:
        """Whether a pass can start, or its end is waited for."""
        return self.has_queue or self.is_due

    @property
    def has_queue(self) -> bool:
        """Whether a pass can start."""
        return super().has_work

    @property
    def wake_ns(self) -> int:
        """When a copy ends for which a request waits, or which decides when a block is free."""
        return self.host.next_end_ns if self.pending else super().wake_ns

    def end_copies(self, now_ns: int) -> None:
        """Let everything happen that copies bring about by `now_ns`."""
        if self.host.end_copies(now_ns):
            self.note_release()
            self.is_freed = bool(self.pending)

    @property
    def has_candidates(self) -> bool:
        """Whether anybody might have been let into the pass that was tried last."""
        return self._had_candidates

    def look(self, now_ns: int) -> None:
        """End copies, and take note whether anybody may be let into the pass that is tried now.

        Who then waits for another copy is set aside, but it was tried.
        """
        self.end_copies(now_ns)
        self._had_candidates = bool(self.waiting) or self.host.next_aside() is not None

    def come_to(self, now_ns: int) -> None:
        """Let what goes on beside the passes have gone on until now."""
        self.end_copies(now_ns)

    def attempt(self) -> Handoff | None:
        """Reserve blocks for the head of `pending`, if anything changed since it was tried last."""
        self.is_freed = False
        return super().attempt()

    def unblock(self) -> bool:
        """Let in who gave way though others wait for blocks, if that is all that can happen."""
        self.unblocked = bool(self.pending) and self.has_queue
        if self.unblocked:
            self.host.give_up()
        return self.unblocked

    # Scheduling -----------------------------------------------------------------------------------------

    def plan(self, now_ns: int) -> int:
        """Begin a pass or a run; a run of one pass when a destination is to be tried at its end."""
        if not self.has_queue:
            self.run_batch = self.pass_ns = self.gap_weight = 0
            self._clear_unusual()
            self.host.idle = True
            return 1
        passes = Offloading.plan(self, now_ns)
        if self.preempted:
            self._releases += 1
        is_awaited = self.host.is_shared and self.pending  # what others store may free blocks here
        return 1 if self.is_due or is_awaited else passes

    def let_in(self, now_ns: int) -> Sequence | None:
        """Admit from the queue: those who have their prompt, and others only if nobody waits for blocks."""
        most, held = self.params.max_num_seqs, len(self.joining) + len(self.done)
        running = self.decoders.count + held + (self.partial is not None)
        while running < most and self.budget > 0 and not self.preempted:
            arrived = self.first_arrived()
            if arrived is None and self.pending and not self.unblocked:
                return None
            if arrived is None:
                self.unblocked = False
                return admit_or_load(self, self.host, now_ns)
            self.enter_arrived(arrived, now_ns)
            self.host.admitted(arrived, 0, self.block_size)
            running += 1
        return None

    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """End the planned pass, or the first `passes` of the planned run; return what became terminal."""
        terminal = super().commit(passes, first_end_ns, end_ns)
        if terminal:
            self.note_release()  # what was rejected gives back what was loaded for it
        return terminal

    def end_pass(self, now_ns: int) -> None:
        """Let copies begin and end with a pass."""
        if self.host.end_pass(now_ns):
            self.note_release()


class OffloadDecodeWorker(OffloadWorker):
    """A worker of such a rank, which notices the end of a copy before all else that happens just then."""

    __slots__ = ("_alarm_ns",)

    _rank: OffloadDecodeRank

    def __init__(self, rank: OffloadDecodeRank) -> None:
        super().__init__(rank)
        self._alarm_ns = 0

    @property
    def wake_ns(self) -> int:
        """When to call `start` again although nothing arrived; far away if there is no reason to."""
        self._alarm_ns = self._rank.wake_ns
        return self._alarm_ns

    @property
    def background_ns(self) -> int:
        """The same while more may happen in the fleet."""
        return self.wake_ns

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`, or just wake up; return who became terminal, in order."""
        now_ns = self.end_ns if self.busy else self._alarm_ns
        terminal = super().finish()
        self._rank.end_copies(now_ns)  # also those of others, where they share
        return terminal

    def start(self, now_ns: int) -> bool:
        """Begin a pass, or a run of passes, at `now_ns`; return whether there was anything to do."""
        self._rank.look(now_ns)
        return self._rank.has_queue and super().start(now_ns)


class OffloadDecodeGroup(OffloadGroup):
    """The same with several ranks; those without a pass notice the end of copies as others end theirs."""

    __slots__ = ("_alarm_ns",)

    def __init__(self, ranks: list[RankScheduler]) -> None:
        super().__init__(ranks)
        self._alarm_ns = 0

    @property
    def _decoding(self) -> list[OffloadDecodeRank]:
        return cast("list[OffloadDecodeRank]", self.ranks)

    @property
    def wake_ns(self) -> int:
        """When to call `start` again although nothing arrived; far away if there is no reason to."""
        self._alarm_ns = min(rank.wake_ns for rank in self._offloading)
        return self._alarm_ns

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`, or just wake up; return who became terminal, in order."""
        now_ns = self.end_ns if self.busy else self._alarm_ns
        terminal = super().finish()
        for rank in self._offloading:
            rank.end_copies(now_ns)
        return terminal

    def start(self, now_ns: int) -> bool:
        """Begin a group pass, or a run of them, at `now_ns`; return whether there was anything to do."""
        for rank in self._decoding:
            rank.look(now_ns)
        return super().start(now_ns)
