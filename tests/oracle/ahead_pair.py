"""Prefill and decode workers that plan pass k + 2 when pass k ends, one pass at a time."""

from __future__ import annotations

from typing import Any

from .ahead import Ahead, is_something
from .disagg import Worker
from .handoff import DecodeRank, PrefillRank
from .request import Request
from .scheduler import Pass


class AheadPrefillRank(Ahead, PrefillRank):
    """Computes prompts."""


class AheadDecodeRank(Ahead, DecodeRank):
    """Reserves blocks for prompts, then decodes."""


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
        return passes if any(is_something(work) for _, work in passes) else []

    def finish(self) -> list[Request]:
        """End the pass in flight; returns the requests that ended on this worker."""
        end_ns, self.end_ns = self.end_ns, None
        assert end_ns is not None
        return [request for rank in self.ranks for request in rank.end(end_ns)]
