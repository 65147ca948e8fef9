"""Workers that plan pass k + 2 when pass k ends, one pass at a time (docs/look-ahead.md)."""

from __future__ import annotations

from typing import Any

from .content import Identities
from .fleet import Worker
from .request import Request
from .scheduler import Pass, RankScheduler
from .sglang import Pass as SglangPass
from .sglang import SglangScheduler


class Ahead(RankScheduler):
    """Books a pass when it begins; who ends with it keeps seat and blocks until it has ended."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ending: list[tuple[Request, str, str | None]] = []  # with the pass in flight

    def begin(self, work: Pass, end_ns: int) -> None:
        """Book what a pass that ends at `end_ns` brings."""
        self.ending += [(request, "rejected", reason) for request, reason in work.rejected]
        over = work.finished[:]
        for request in work.emitting:
            request.emit(end_ns)
            if self._remaining(request) == 0:
                over.append(request)
        for request in over:
            self.running.remove(request)
            self.leaving.append(request)
            self.ending.append((request, "completed", None))

    def end(self, end_ns: int) -> list[Request]:
        """Let those go whose last pass ended now."""
        ended, self.ending, self.leaving = self.ending, [], []
        for request, status, reason in ended:
            if status == "completed":
                self._complete(request, end_ns)
            else:
                request.end(end_ns, status, reason)
        return [request for request, _, _ in ended]


class AheadDrafts(Ahead):
    """The same with drafts: how many are accepted is known when the pass begins."""

    @property
    def others_hold(self) -> bool:
        """Whether requests that do not run hold blocks, which they will give back."""
        return bool(self.leaving)

    def begin(self, work: Pass, end_ns: int) -> None:
        """Book what a pass that ends at `end_ns` brings; what was set aside for bursts returns."""
        self.ending += [(request, "rejected", reason) for request, reason in work.rejected]
        self.ending += [(request, "completed", None) for request in work.finished]
        for request in work.emitting:
            self._emit(request, end_ns)
            if self._remaining(request) == 0:
                self.running.remove(request)
                self.leaving.append(request)
                self.ending.append((request, "completed", None))
        self.pool.return_rest()


class AheadSglangScheduler(SglangScheduler):
    """The same with SGLang's rules: what is computed is in the tree at once, but locked until the end."""

    taken = 0  # slots of those who end with the pass in flight

    def __init__(
        self, rank: dict[str, Any], identities: Identities, dp_size: int = 1, number: int = 0
    ) -> None:
        super().__init__(rank, identities, dp_size, number)
        self.ending: list[tuple[Request, str, str | None]] = []

    @property
    def others_hold(self) -> bool:
        """Whether requests that do not run hold pages, which they will give back."""
        return self.taken > 0 or super().others_hold

    def acts(self, work: SglangPass) -> bool:
        """Whether a pass does anything."""
        return is_something(work)

    def plan(self, now_ns: int, may_prefill: bool = True) -> SglangPass:
        """Choose the work of a pass; if there is none, nothing happened."""
        ratio = self.ratio
        self.leaving = self.taken
        work = super().plan(now_ns, may_prefill)
        if not self.acts(work):
            self.ratio = ratio
        return work

    def begin(self, work: SglangPass, end_ns: int) -> None:
        """Book what a pass that ends at `end_ns` brings."""
        self.ending += [(request, "rejected", reason) for request, reason in work.rejected]
        work.rejected = []
        self.settle(work, end_ns)

    def _complete(self, request: Request, end_ns: int) -> None:
        if self.caching:
            self._cache_completed(request)
        if request in self.running:
            self.running.remove(request)
        self.ending.append((request, "completed", None))
        self.taken += 1

    def end(self, end_ns: int) -> list[Request]:
        """Let those go whose last pass ended now."""
        ended, self.ending, self.taken = self.ending, [], 0
        for request, status, reason in ended:
            if status == "completed":
                self._release(request)
            request.end(end_ns, status, reason)
        return [request for request, _, _ in ended]


class AheadWorker(Worker):
    """`dp_size` ranks with a pass in flight and the next one planned."""

    planned: list[tuple[Any, Any]]

    def __init__(self, engine: dict[str, Any], identities: Identities, number: int = 0) -> None:
        super().__init__(engine, identities, number)
        self.planned = []

    def _ranks(self, rank: dict[str, Any], dp_size: int, identities: Identities, first: int) -> list[Any]:
        if rank.get("backend") == "sglang":
            return [AheadSglangScheduler(rank, identities, dp_size, first + i) for i in range(dp_size)]
        kind = AheadDrafts if rank.get("aic_nextn") else Ahead
        return [kind(rank, identities, first + index) for index in range(dp_size)]

    def start(self, now_ns: int) -> bool:
        """Begin the planned pass and plan the next; without one, plan now what begins now."""
        if self.end_ns is not None:
            return False
        passes = self.planned or self._plan_something(now_ns)
        if not passes:
            return False
        self.end_ns = now_ns + max(work.duration_ns for _, work in passes)
        for rank, work in passes:
            rank.begin(work, self.end_ns)
        self.planned = self._plan_something(now_ns)
        return True

    def _plan_something(self, now_ns: int) -> list[tuple[Any, Any]]:
        passes = self._plan([rank for rank in self.ranks if rank.ready], now_ns)
        return passes if any(is_something(work) for _, work in passes) else []

    def finish(self) -> list[Request]:
        """End the pass in flight; returns the requests that became terminal."""
        assert self.end_ns is not None
        ended = [request for rank in self.ranks for request in rank.end(self.end_ns)]
        self.end_ns = None
        return ended


def is_something(work: Pass | SglangPass) -> bool:
    """Whether a pass does anything."""
    if isinstance(work, SglangPass):
        return bool(work.ran_model or work.rejected or work.retracted)
    return bool(work.computed or work.rejected or work.preempted_any or work.finished or work.emitting)
