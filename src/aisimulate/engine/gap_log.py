"""A compact record of every inter-token gap of one worker, expanded once by the report."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.sequence import Sequence


class GapLog:
    """Gaps between tokens, grouped.

    `runs`: (batch, context_tokens, passes, weight, first) - each pass of that run of `timer` is a gap of
    `weight` requests; `first` is the pass count at its start.
    `passes`: (duration_ns, weight, first) - one pass that is a gap of `weight` requests.
    `series`: (durations_ns, weight, first) - consecutive passes, each a gap of `weight` requests.
    `singles`: (gap_ns, sequence) - a gap that only this sequence saw (it was preempted or stalled).
    Only requests that complete count: see `Absences`.
    """

    __slots__ = ("passes", "runs", "series", "singles", "timer")

    def __init__(self, timer: PassTimer) -> None:
        self.timer = timer
        self.runs: list[tuple[int, int, int, int, int]] = []
        self.passes: list[tuple[int, int, int]] = []
        self.series: list[tuple[array[int], int, int]] = []
        self.singles: list[tuple[int, Sequence]] = []


class Absences:
    """How many of a worker's decoders did not complete in the end, by pass.

    `spans`: (first, last) intervals of passes in which such a decoder took part, last excluded.
    """

    __slots__ = ("_counts", "_edges")

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        changes: dict[int, int] = {}
        for first, last in spans:
            changes[first] = changes.get(first, 0) + 1
            changes[last] = changes.get(last, 0) - 1
        self._edges = sorted(changes)
        self._counts = [0, *accumulate(changes[edge] for edge in self._edges)]

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Cut the passes [start, end) where the count changes; yield (first, last, count)."""
        index = bisect_right(self._edges, start)
        while start < end:
            edge = self._edges[index] if index < len(self._edges) else end
            stop = min(edge, end)
            yield start, stop, self._counts[index]
            start = stop
            index += 1
