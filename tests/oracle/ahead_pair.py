"""Prefill and decode workers that plan pass k + 2 when pass k ends, one pass at a time."""

from __future__ import annotations

from typing import Any

from .ahead import _is_something
from .content import Identities
from .disagg import Worker
from .handoff import DecodeRank, PrefillRank
from .request import Request
from .scheduler import Pass, RankScheduler


class _Ahead(RankScheduler):
    """Books a pass when it begins; who ends with it keeps seat and blocks until it has ended."""

    ending: list[tuple[Request, str, str | None]]

    def begin(self, work: Pass, end_ns: int) -> None:
        """Book what a pass that ends at `end_ns` brings."""
        self.ending = [(request, "rejected", reason) for request, reason in work.rejected]
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


class AheadPrefillRank(_Ahead, PrefillRank):
    """Computes prompts."""

    def __init__(self, rank: dict[str, Any], identities: Identities) -> None:
        PrefillRank.__init__(self, rank, identities)
        self.ending = []


class AheadDecodeRank(_Ahead, DecodeRank):
    """Reserves blocks for prompts, then decodes."""

    def __init__(self, rank: dict[str, Any], identities: Identities, number: int = 0) -> None:
        DecodeRank.__init__(self, rank, identities, number)
        self.ending = []


class AheadPairWorker(Worker):
    """Ranks with a pass in flight and the next one planned."""

    def __init__(self, ranks: list[Any], interval: int = 1) -> None:
        super().__init__(ranks, interval)
        self.planned: list[tuple[Any, Pass]] = []

    def start(self, now_ns: int) -> bool:
        """Begin the planned pass and plan the next; without one, plan now what begins now."""
        passes = self.planned or self._plan(now_ns)
        if not passes:
            return False
        self.end_ns = now_ns + max(work.duration_ns for _, work in passes)
        for rank, work in passes:
            rank.begin(work, self.end_ns)
        self.planned = self._plan(now_ns)
        return True

    def _plan(self, now_ns: int) -> list[tuple[Any, Pass]]:
        passes = [(rank, rank.plan(now_ns)) for rank in self.ranks if rank.ready]
        return passes if any(_is_something(work) for _, work in passes) else []

    def finish(self) -> list[Request]:
        """End the pass in flight; returns the requests that ended on this worker."""
        end_ns, self.end_ns = self.end_ns, None
        assert end_ns is not None
        return [request for rank in self.ranks for request in rank.end(end_ns)]
