"""Workers that plan one pass ahead, for those who watch them.

A pass is described when it is planned and told of when it begins. What its plan did besides (who was let in,
preempted, turned away) is told when that was done: with the pass that began then.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from aisimulate.engine.ahead_progress import plan_known_at, plans_known_by
from aisimulate.engine.pass_view import RankPass
from aisimulate.engine.sglang_view import SglangRankView
from aisimulate.engine.speculative_view import SpeculativeRankView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.engine.pass_view import BlockAudit, Gauges
    from aisimulate.engine.rank_view import RankView
    from aisimulate.engine.sequence import Sequence


@dataclass(slots=True)
class _Planned:
    """What a rank does in a pass, and the lengths of those that decode in it at its start."""

    work: RankPass
    lengths: list[int]
    is_run: bool
    counted: list[tuple[Sequence, int]] = field(default_factory=list)  # with drafts: who decodes, its tokens

    def later(self, passes: int) -> _Planned:
        """The same so many passes later in the run."""
        if not passes:
            return self
        work = self.work
        return _Planned(
            RankPass(work.rank, work.decode_batch, work.decode_context + passes * work.decode_batch),
            [length + passes for length in self.lengths],
            self.is_run,
        )


class _AheadView:
    """What the views of such ranks have in common; `flight` is what the rank does in the pass in flight."""

    _rank: Any
    flight: _Planned | None = None
    extra_in_flight = extra = 0  # tokens of accepted drafts: in the pass in flight, in the one told of

    def describe(self, now_ns: int) -> _Planned:
        """Describe what was planned at `now_ns`."""
        work = super().read(now_ns)  # type: ignore[misc]
        lengths = super().decode_lengths(work)  # type: ignore[misc]
        return _Planned(work, lengths, bool(self._rank.run_batch), getattr(self, "_counted", []))

    @property
    def extra_tokens(self) -> int:
        """Tokens of accepted drafts in the last pass."""
        return self.extra

    def note_accepted(self) -> int:
        """Count the accepted drafts of the pass that was just booked."""
        return 0

    def decode_lengths(self, work: RankPass) -> list[int]:
        """Lengths at the start of the pass that just began of those that decode or replay in it."""
        del work
        return [] if self.flight is None else self.flight.lengths

    def is_decoding(self, sequence: Sequence) -> bool:
        """Whether a sequence decodes in the next pass, and its prompt is not computed there."""
        if self.flight is not None:
            work = self.flight.work
            if any(chunk.sequence is sequence for chunk in (*work.prefills, *work.replays)):
                return False
        is_member: bool = super().is_decoding(sequence)  # type: ignore[misc]
        return is_member or sequence in self._rank.departing

    def gauges(self, run_passes: int = 0) -> Gauges:
        """Read the rank; who ends with the pass in flight keeps seat and blocks until then."""
        gauges: Gauges = super().gauges(run_passes)  # type: ignore[misc]
        return gauges._replace(running_requests=gauges.running_requests + len(self._rank.departing))

    def gauges_in_pass(self, passes: int) -> Gauges:
        """Read the rank inside of pass number `passes` of those in flight, whose successor is planned."""
        return self.gauges(passes if self._rank.run_batch else 0)


class _AheadVllmView(_AheadView):
    def _running(self) -> Iterator[tuple[Sequence, int]]:
        yield from super()._running()  # type: ignore[misc]
        computes_only = hasattr(self._rank, "release")  # prompts, which are handed over
        for sequences, uncomputed in self._rank.leaving:
            for sequence in sequences:
                tokens = sequence.input_tokens if computes_only else sequence.tokens - uncomputed
                yield sequence, tokens


class _AheadDraftView(_AheadView):
    def note_accepted(self) -> int:
        """Count the accepted drafts of the pass that was just booked."""
        counted = [] if self.flight is None else self.flight.counted
        return sum(self._rank.accepted_in(sequence, tokens) for sequence, tokens in counted)

    def gauges(self, run_passes: int = 0) -> Gauges:
        """Read the rank; those without anything to generate count until the end of their pass."""
        gauges, rank = super().gauges(run_passes), self._rank
        planned = sum(sequence.status is None for sequence in rank.done)
        ending = dict.fromkeys([*rank.done, *(s for s in rank.turned_away if s.reason is None)])
        there = sum(sequence.status is None for sequence in ending)
        return gauges._replace(running_requests=gauges.running_requests - planned + there)

    def _private_blocks(self) -> Iterator[int]:
        yield from super()._private_blocks()  # type: ignore[misc]
        for sequence in self._rank.leaving:
            node = sequence.node
            yield sequence.held_blocks - (0 if node is None else node.start + node.len)


class _AheadSglangView(_AheadView):
    def note_accepted(self) -> int:
        """Count the accepted drafts of the pass that was just booked."""
        decodes = self.flight is not None and self.flight.is_run
        return int(self._rank.accepted) if decodes and hasattr(self._rank, "accepted") else 0

    def audit(self) -> BlockAudit:
        """Count the pages; those outside the tree of who leaves are known."""
        audit: BlockAudit = super().audit()  # type: ignore[misc]
        if getattr(self, "_is_handing", False):
            return audit  # by the counters
        return audit._replace(held=audit.held + sum(pages for _, pages, _ in self._rank.leaving))


@cache
def _ahead_kind(kind: type) -> type:
    mixin: type[_AheadView] = _AheadVllmView
    if issubclass(kind, SpeculativeRankView):
        mixin = _AheadDraftView
    elif issubclass(kind, SglangRankView):
        mixin = _AheadSglangView
    return type(f"Ahead{kind.__name__}", (mixin, kind), {})


class AheadFlight:
    """An `InFlight` of a worker that plans ahead: the pass in flight, and those of the run planned behind it.

    The worker tells of its plans (`mark`, `planned`) and of the passes that it books (`booked`).
    """

    def __init__(self, worker: Any, views: list[RankView]) -> None:  # noqa: ANN401
        self._worker = worker
        self.ranks: list[Any] = [
            _ahead_kind(type(view))(rank, index)
            for index, (view, rank) in enumerate(zip(views, worker.ranks, strict=True))
        ]
        self.start_ns = 0
        self._marked: list[int] = []
        self._next: dict[int, _Planned] = {}  # by rank
        self._news: list[RankPass] = []  # of the plans that were made since passes began
        known = plans_known_by(worker)
        assert known is not None
        self._known, self._known_at = known, plan_known_at(worker)
        worker.watcher = self

    # What the worker tells ------------------------------------------------------------------------------

    def mark(self) -> None:
        """Take note that a plan is about to be made."""
        self._marked = [index for index, rank in enumerate(self.ranks) if rank.has_work]
        for index in self._marked:
            self.ranks[index].mark()

    def planned(self, now_ns: int) -> None:
        """Take note of the plan made at `now_ns`."""
        self._next = {}
        if not self._worker._passes:
            return
        for index in self._marked:
            found = self.ranks[index].describe(now_ns)
            self._news.append(found.work)
            self._next[index] = found

    def booked(self) -> None:
        """Take note that one of the planned passes begins."""
        ended = self._worker._ended
        for index, rank in enumerate(self.ranks):
            found = self._next.get(index)
            rank.flight = None if found is None else found.later(ended)

    def has_booked(self) -> None:
        """Take note that it was booked."""
        for rank in self.ranks:
            rank.extra_in_flight = rank.note_accepted()

    # What is watched ------------------------------------------------------------------------------------

    def begin(self, now_ns: int) -> list[RankPass]:
        """Describe the passes that began; those that are not like the first are decided about later."""
        self.start_ns = now_ns
        worker = self._worker
        if worker._ended and not self._is_run():
            worker.cut(worker._start_ns)
        doing = {
            index: replace(rank.flight.work, admitted=[], dequeued=[], preempted=[], rejected=[])
            for index, rank in enumerate(self.ranks)
            if rank.flight is not None
        }
        for news in self._news:
            if news.rank not in doing and (news.admitted or news.dequeued or news.preempted or news.rejected):
                doing[news.rank] = RankPass(news.rank, 0, 0)
            if (work := doing.get(news.rank)) is not None:
                work.admitted += news.admitted
                work.dequeued += news.dequeued
                work.preempted += news.preempted
                work.rejected += news.rejected
        self._news = []
        for rank in self.ranks:
            rank.extra = rank.extra_in_flight
        return [doing[index] for index in sorted(doing)]

    def _is_run(self) -> bool:
        """Whether the planned passes go on with the one in flight."""
        for index, rank in enumerate(self.ranks):
            flight, following = rank.flight, self._next.get(index)
            if (flight is None) != (following is None):
                return False
            if flight is None or following is None:
                continue
            is_same = flight.work.decode_batch == following.work.decode_batch
            if not (flight.is_run and following.is_run and is_same and rank.is_steady):
                return False
        return True

    @property
    def passes(self) -> int:
        """How many passes there are; fewer once an arrival cut them short."""
        return 1 + int(self._worker._ended)

    def passes_by(self, limit_ns: int) -> tuple[int, int]:
        """Count the passes that end by `limit_ns`, which is before all of them do; give the last end."""
        passes = self._known(limit_ns)
        return passes, self._known_at(passes) if passes else self.start_ns

    def pass_ns(self, number: int) -> int:
        """Duration of one of the passes, counted from 1."""
        start_ns = self.start_ns if number == 1 else self._known_at(number - 1)
        return self._known_at(number) - start_ns
