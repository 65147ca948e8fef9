"""SGLang one pass ahead, as its overlap scheduler plans (docs/look-ahead.md).

A request that ends with the pass in flight has its pages in the tree at once, as all that is computed, but
locks them and keeps its slot until that pass has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.ahead_worker import AheadWorker
from aisimulate.engine.radix_pool import RadixPool
from aisimulate.engine.sequence import COMPLETED, REJECTED
from aisimulate.engine.sglang_scheduler import SglangScheduler
from aisimulate.engine.sglang_worker import close_log

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.params import SglangParams
    from aisimulate.engine.sequence import Sequence


class AheadSglangScheduler(SglangScheduler):
    """A rank that plans one pass ahead; `look_ahead.LookAhead` tells the meaning."""

    # No slots, so that it can be put before any kind of rank.

    def __init__(self, params: SglangParams, timer: PassTimer) -> None:
        super().__init__(params, timer)
        self.pool = RadixPool(params.num_gpu_blocks, params.block_size, params.enable_prefix_caching)
        # Who ends with the pass in flight: pages that it has outside the tree, and its last touch.
        self.leaving: list[tuple[Sequence, int, int]] = []
        self.turned_away: list[Sequence] = []

    @property
    def is_left(self) -> bool:
        """Whether somebody ends with the pass in flight."""
        return bool(self.leaving or self.turned_away)

    @property
    def departing(self) -> list[Sequence]:
        """Those who get all they want in the pass in flight, in order."""
        return [sequence for sequence, _, _ in self.leaving]

    @property
    def does_something(self) -> bool:
        """Whether the planned pass does anything."""
        return bool(self.run_batch or self.selected or self.rejected or self.retracted)

    def plan_ahead(self, now_ns: int, start_ns: int) -> int:
        """Plan, at `now_ns`, the pass that begins at `start_ns`; return how many identical ones follow it.

        0 if there is nothing to do, or if all who could do something wait for those who leave.
        """
        del start_ns
        if not self.has_work:
            self.run_batch = 0
            return 0
        leaving = len(self.leaving)
        self.held += leaving
        self.slots = self.params.max_num_seqs - leaving
        ratio = self.ratio.kept()
        passes = self.plan(now_ns)
        self.held -= leaving
        if self.does_something:
            return passes
        self.ratio.restore(ratio)
        return 0

    def commit(self, passes: int, first_end_ns: int, end_ns: int) -> list[Sequence]:
        """Book the planned pass, or the first `passes` of the planned run, which end at `end_ns`.

        Nobody is terminal before it has ended.
        """
        self.turned_away = self.rejected[:]
        super().commit(passes, first_end_ns, end_ns)
        for sequence in self.turned_away:
            sequence.status = sequence.terminal_ns = None
        return []

    def finish_due(self, end_ns: int) -> list[Sequence]:
        """Let decoders that get their last token wait for the end of the pass in flight."""
        finished = self.decoders.pop_finished()
        self.reservations.finish(len(finished), self.decoders.passes)
        for sequence in finished:
            self.planned -= sequence.planned
            self.recent.pop(sequence, None)
            sequence.last_token_ns = end_ns
            self.leaving.append((sequence, *self.pool.settle(sequence, sequence.tokens)))
        return []

    def _complete(self, sequence: Sequence, tokens: int, end_ns: int) -> None:
        del end_ns
        sequence.joined = self.decoders.passes  # no gap of its own is that of a pass
        self.leaving.append((sequence, *self.pool.settle(sequence, tokens)))

    def depart(self, end_ns: int) -> list[Sequence]:
        """End, at the end of the pass in flight, those who end with it; return them in order."""
        terminal, self.turned_away = self.turned_away, []
        for sequence in terminal:
            sequence.status = REJECTED
        leaving, self.leaving = self.leaving, []
        for sequence, pages, touched in leaving:
            self.pool.let_go(sequence, pages, touched)
            sequence.status = COMPLETED
            terminal.append(sequence)
        for sequence in terminal:
            sequence.terminal_ns = end_ns
        return terminal

    def lost_spans(self) -> list[tuple[int, int]]:
        """List the pass intervals of decoders that did not complete, at the end of a replay."""
        passes = self.decoders.passes
        left = [(sequence.joined, passes) for sequence, _, _ in self.leaving if sequence.joined < passes]
        return super().lost_spans() + left


class AheadSglangWorker(AheadWorker[AheadSglangScheduler]):
    """A worker of one rank."""

    __slots__ = ("_other_passes",)

    def __init__(self, rank: AheadSglangScheduler) -> None:
        super().__init__(rank)
        self._other_passes = 0  # that do not decode

    @property
    def passes(self) -> int:
        """Passes simulated so far."""
        return self._rank.decoders.passes + self._other_passes

    def _begin(self) -> int:
        """Book the planned passes up to the one that begins now; return its end."""
        rank, timer, runs = self._rank, self._timer, self.gap_log.runs
        passes, done = self._ended + 1, rank.decoders.passes
        if batch := rank.run_batch:
            context = rank.run_context
            begin_ns = self.end_ns if self._ended else self._start_ns
            first_end_ns = end_ns = begin_ns + timer.decode_ns(batch, context + self._ended * batch)
            if not rank.lagging:
                runs += (batch, context, passes, batch, done)
            elif passes > 1:
                first_end_ns = self._start_ns + timer.decode_ns(batch, context)
                runs += (batch, context + batch, passes - 1, batch, done + 1)
        else:
            self._other_passes += 1
            first_end_ns = end_ns = self._start_ns + rank.pass_ns
        rank.commit(passes, first_end_ns, end_ns)
        return end_ns

    def close(self) -> GapLog:
        """Return the finished gap log, without the gaps of sequences that did not complete."""
        close_log(self._rank, self.gap_log)
        return self.gap_log
