"""Workers that tell when passes end: which prompts have their first token, and which requests are over.

A router needs to know. Each kind of worker has a twin that tells; a replay without a router has none of them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from aisimulate.engine.ahead_group import AheadGroup
from aisimulate.engine.ahead_worker import AheadWorker
from aisimulate.engine.group import PassGroup
from aisimulate.engine.run_worker import RunWorker
from aisimulate.engine.scheduler import RankScheduler
from aisimulate.engine.sglang_scheduler import SglangScheduler
from aisimulate.engine.sglang_worker import SglangGroup, SglangWorker
from aisimulate.engine.speculative import SpeculativeScheduler
from aisimulate.engine.told_prefill import end_alone, plan_alone
from aisimulate.engine.worker import RankWorker

if TYPE_CHECKING:
    from aisimulate.engine.cache_view import CacheView
    from aisimulate.engine.logged_pools import PatientRunPool
    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.sequence import Sequence


class PassListener(Protocol):
    """Is told of the ends of passes, after they happened."""

    def passes_ended(self, computed: list[Sequence], terminal: list[Sequence], end_ns: int) -> None:
        """Take note that passes ended at `end_ns`.

        `computed` are those whose prompt was in the passes, and maybe completed; `terminal` what they ended.
        """
        ...


class Telling:
    """Tells `listener` of the ends of passes, and lets `views` of the ranks know."""

    __slots__ = ()

    listener: PassListener
    views: list[CacheView]

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        end_ns: int = self.end_ns  # type: ignore[attr-defined]
        computed = self._computed()
        for view in self.views:
            view.end_pass(end_ns)
        terminal = self._end_passes()
        for view in self.views:
            view.publish(end_ns)
        for sequence in terminal:
            if sequence.status is None:
                self.views[sequence.rank].hold(sequence, end_ns)
        if computed or terminal:
            self.listener.passes_ended(computed, terminal, end_ns)
        return terminal

    def _computed(self) -> list[Sequence]:
        raise NotImplementedError

    def _end_passes(self) -> list[Sequence]:
        """End the passes as the kind of worker does that this is the twin of."""
        raise NotImplementedError


class _TellingOne(Telling):
    __slots__ = ()

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        end_ns: int = self.end_ns  # type: ignore[attr-defined]
        rank: RankScheduler = self._rank  # type: ignore[attr-defined]
        computed, view = rank.joining, self.views[0]
        changes = view.changes
        if view.lags:
            view.end_pass(end_ns)
        else:
            changes.ignored = True
        terminal = self._end_passes()
        changes.ignored = False
        if changes.fresh:
            changes.publish(end_ns)
        if computed or terminal:
            self.listener.passes_ended(computed, terminal, end_ns)
        return terminal

    def _start_chunks(self, partial: Sequence) -> bool:
        """Plan every chunk of a prompt by itself: others may look for what it computed."""
        del partial
        return False


class ToldRankWorker(_TellingOne, RankWorker):
    """The twin of a `RankWorker`, which tells its pool when it plans, if that is a patient one.

    Passes that compute one prompt it plans by itself, if the rank `_is_plain`; `_is_alone`: one is in flight.
    When it begins or ends passes, its `place` is added to what has `moved`.
    """

    __slots__ = ("_is_alone", "_is_plain", "listener", "moved", "patient_pool", "place", "views")

    patient_pool: PatientRunPool | None
    place: int
    moved: set[int]
    _end_passes = RankWorker.finish
    _is_alone: bool
    _is_plain: bool

    def prepare(self) -> None:
        """Be as one that was not used."""
        self.patient_pool = None
        self.place, self.moved = 0, set()
        self._is_alone, self._is_plain = False, type(self._rank) is RankScheduler

    def start(self, now_ns: int) -> bool:
        """Begin a pass, or a run of passes, at `now_ns`; return whether there was work for one."""
        pool, rank = self.patient_pool, self._rank
        if pool is None:
            return super().start(now_ns)
        only_decodes = not rank.waiting and rank.partial is None
        if only_decodes and not rank.decoders.count:
            return False
        self.busy = True
        self.plans += 1
        self._start_ns = now_ns
        self.moved.add(self.place)
        if only_decodes and self._start_run():
            return True
        pool.begin_plan()
        if only_decodes or rank.unusual or not self._is_plain or not plan_alone(rank, now_ns):
            return self._start_planned(rank.plan(now_ns))
        self._is_alone = self.exact = True
        self._passes = 1
        self.end_ns = now_ns + rank.pass_ns
        return True

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        pool, rank = self.patient_pool, self._rank
        if pool is None:
            return super().finish()
        end_ns, changes = self.end_ns, pool.changes
        self.moved.add(self.place)
        computed = rank.joining
        changes.ignored = True
        if self._is_alone:
            self._is_alone = self.busy = False
            terminal = end_alone(rank, self.gap_log, end_ns)
        else:
            terminal = self._end_passes()
        if changes.fresh:
            changes.publish(end_ns)
        if computed or terminal:
            self.listener.passes_ended(computed, terminal, end_ns)
        return terminal


class _TellingGroup(Telling):
    __slots__ = ()

    def _computed(self) -> list[Sequence]:
        return [sequence for rank in self._active for sequence in _joining(rank)]  # type: ignore[attr-defined]


class _TellingDrafts(Telling):
    __slots__ = ()

    def _computed(self) -> list[Sequence]:
        return _joining(self._rank)  # type: ignore[attr-defined]


def _joining(rank: RankScheduler) -> list[Sequence]:
    """List those that may get their first token: with drafts, all that get any."""
    return rank.ready if isinstance(rank, SpeculativeScheduler) else rank.joining


def _selected(rank: SglangScheduler) -> list[Sequence]:
    return [*rank.selected, *rank.recent] if rank.late else rank.selected


class _TellingSglang(Telling):
    __slots__ = ()

    def _computed(self) -> list[Sequence]:
        return _selected(self._rank)  # type: ignore[attr-defined]


class _TellingSglangGroup(Telling):
    __slots__ = ()

    def _computed(self) -> list[Sequence]:
        return [sequence for rank in self._active for sequence in _selected(rank)]  # type: ignore[attr-defined]


class _TellingAhead(Telling):
    """Tells at the end of a pass what the plans up to its beginning did to the caches.

    A pass that computes the end of a prompt is followed by a decision, because that has to be told.
    """

    _computing: list[Sequence]  # by the pass in flight
    _told: list[Sequence]  # those of the pass that ends

    def start(self, now_ns: int) -> bool:
        """Begin what was planned and plan what follows; return whether there was work."""
        started: bool = super().start(now_ns)  # type: ignore[misc]
        if started and self._computing:
            self.cut(self._start_ns)  # type: ignore[attr-defined]
        return started

    def finish(self) -> list[Sequence]:
        """End what ends at `end_ns`; return the sequences that became terminal, in order."""
        self._told, self._computing = self._computing, []
        return super().finish()

    def _computed(self) -> list[Sequence]:
        return self._told

    def _depart(self) -> list[Sequence]:
        terminal: list[Sequence] = super()._depart()  # type: ignore[misc]
        for view in self.views:
            view.publish(self.end_ns)  # type: ignore[attr-defined]
        return terminal

    def _begin(self) -> int:
        self._computing = self._planned()
        return super()._begin()  # type: ignore[misc,no-any-return]

    def _planned(self) -> list[Sequence]:
        """List those whose prompt is in the passes that begin."""
        raise NotImplementedError


class _TellingAheadOne(_TellingAhead):
    def _planned(self) -> list[Sequence]:
        return _prompts_of(self._rank)  # type: ignore[attr-defined]


class _TellingAheadGroup(_TellingAhead):
    def _planned(self) -> list[Sequence]:
        return [sequence for rank in self._active for sequence in _prompts_of(rank)]  # type: ignore[attr-defined]


def _prompts_of(rank: RankScheduler | SglangScheduler) -> list[Sequence]:
    return _selected(rank) if isinstance(rank, SglangScheduler) else _joining(rank)


_MIXINS: tuple[tuple[type, type[Telling]], ...] = (
    (AheadGroup, _TellingAheadGroup),
    (AheadWorker, _TellingAheadOne),
    (SglangWorker, _TellingSglang),
    (SglangGroup, _TellingSglangGroup),
    (PassGroup, _TellingGroup),
    (RunWorker, _TellingOne),
)


@cache
def twin_of(kind: type, drafts: bool = False) -> type:
    """Make the class of workers of this kind that tell; `drafts`: of ranks that verify some."""
    if kind is RankWorker and not drafts:
        return ToldRankWorker
    mixin = next(mixin for base, mixin in _MIXINS if issubclass(kind, base))
    if drafts and mixin is _TellingOne:
        mixin = _TellingDrafts
    members = {"__slots__": ("listener", "views"), "_end_passes": kind.finish}  # type: ignore[attr-defined]
    return type(f"Telling{kind.__name__}", (mixin, kind), members)


def telling(worker: Worker, listener: PassListener) -> Worker:
    """Make the twin of an unused worker that tells `listener`; the worker itself must not be used any more.

    It has no views of its ranks yet: they are added to `views`.
    """
    kind = type(worker)
    ranks: list[Any] = worker.ranks  # type: ignore[attr-defined]
    drafts = isinstance(ranks[0], SpeculativeScheduler)
    twin: Any = object.__new__(twin_of(kind, drafts) if drafts else twin_of(kind))
    for base in kind.__mro__:
        for name in getattr(base, "__slots__", ()):
            setattr(twin, name, getattr(worker, name))
    twin.listener, twin.views = listener, []
    if isinstance(twin, _TellingAhead):
        twin._computing = []
    if isinstance(twin, ToldRankWorker):
        twin.prepare()
    return twin  # type: ignore[no-any-return]
