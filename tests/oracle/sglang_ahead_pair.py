"""Prefill and decode workers of SGLang that plan pass k + 2 when pass k ends, one pass at a time."""

from __future__ import annotations

from typing import Any

from .ahead import AheadSglangScheduler
from .ahead_pair import AheadPairWorker
from .request import Request
from .sglang import Pass
from .sglang_handoff import SglangDecodeRank, SglangPrefillRank, _acts


class AheadSglangPrefillRank(AheadSglangScheduler, SglangPrefillRank):
    """Computes prompts, which are there when the pass has ended."""

    def _complete(self, request: Request, end_ns: int) -> None:
        self.ending.append((request, "computed", None))
        self.taken += 1

    def end(self, end_ns: int) -> list[Request]:
        """Let those go whose last pass ended now."""
        ended, self.ending, self.taken = self.ending, [], 0
        for request, status, reason in ended:
            if status == "computed":
                self.kept += 1
            else:
                request.end(end_ns, status, reason)
        return [request for request, _, _ in ended]


class AheadSglangDecodeRank(AheadSglangScheduler, SglangDecodeRank):
    """Reserves pages for prompts, then decodes."""

    def acts(self, work: Pass) -> bool:
        """Whether a pass does anything."""
        return _acts(self, work)

    def end(self, end_ns: int) -> list[Request]:
        """Let those go whose last pass ended now."""
        ended = super().end(end_ns)
        self.releases += sum(request.status == "completed" for request in ended)
        return ended


class AheadSglangPoolWorker(AheadPairWorker):
    """Ranks of a pool. The planned pass is booked when the one before it ends: before prompts come and go."""

    booked_end_ns = 0

    def start(self, now_ns: int) -> bool:
        """Go on with the pass that is booked and plan the next; without one, plan now what begins now."""
        if not self.planned:
            self.planned = self._plan(now_ns)
            if not self.planned:
                return False
            self._book(now_ns)
        self.end_ns = self.booked_end_ns
        self.planned = self._plan(now_ns)
        return True

    def _book(self, now_ns: int) -> None:
        self.booked_end_ns = now_ns + max(work.duration_ns for _, work in self.planned)
        for rank, work in self.planned:
            rank.begin(work, self.booked_end_ns)

    def finish(self) -> list[Request]:
        """End the pass in flight; returns the requests that ended on this worker."""
        end_ns = self.end_ns
        assert end_ns is not None
        ended = super().finish()
        if self.planned:
            self._book(end_ns)
        return ended

    def _plan(self, now_ns: int) -> list[tuple[Any, Any]]:
        passes = [(rank, rank.plan(now_ns)) for rank in self.ranks if rank.ready]
        return passes if any(rank.acts(work) for rank, work in passes) else []


AHEAD: dict[type, type] = {
    SglangPrefillRank: AheadSglangPrefillRank,
    SglangDecodeRank: AheadSglangDecodeRank,
}
