"""A compact record of every inter-token gap of one worker, expanded once by the report."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.sequence import Sequence


RUN_WIDTH = 5
PASS_WIDTH = 3


class GapLog:
    """Gaps between tokens, grouped.

    `runs`: batch, context_tokens, passes, weight, first - each pass of that run of `timer` is a gap of
    `weight` requests; `first` is the pass count at its start. Five numbers a run in one flat list, because
    that is faster to write than a list of tuples.
    `passes`: duration_ns, weight, first - one pass that is a gap of `weight` requests; flat, three a pass.
    `packed_runs`, `packed_passes`: the same, moved there by `pack`, in 32 bits a number if they fit.
    `series`: (durations_ns, weight, first) - consecutive passes, each a gap of `weight` requests.
    `singles`: (gap_ns, sequence) - a gap that only this sequence saw (it was preempted or stalled).
    Only requests that complete count: see `Absences`.
    """

    __slots__ = ("packed_passes", "packed_runs", "passes", "runs", "series", "singles", "timer")

    def __init__(self, timer: PassTimer) -> None:
        self.timer = timer
        self.runs: list[int] = []
        self.passes: list[int] = []
        self.packed_runs = array("I")
        self.packed_passes = array("I")
        self.series: list[tuple[array[int], int, int]] = []
        self.singles: list[tuple[int, Sequence]] = []

    def pack(self) -> None:
        """Move what was logged so far to the packed arrays."""
        self.packed_runs = joined(self.packed_runs, self.runs)
        self.packed_passes = joined(self.packed_passes, self.passes)
        self.runs.clear()
        self.passes.clear()

    def leave_out(self, absences: Absences) -> None:
        """Take the gaps of sequences that did not complete out of what is packed."""
        self.packed_runs = array(
            "q",
            (
                number
                for batch, context, passes, weight, first in rows(self.packed_runs, RUN_WIDTH)
                for low, high, count in absences.pieces(first, first + passes)
                if weight > count
                for number in (batch, context + (low - first) * batch, high - low, weight - count, low)
            ),
        )
        self.packed_passes = array(
            "q",
            (
                number
                for duration_ns, weight, first in rows(self.packed_passes, PASS_WIDTH)
                if weight > (count := absences.at(first))
                for number in (duration_ns, weight - count, first)
            ),
        )
        early = [row for row in self.series if row[2] + len(row[0]) <= absences.first]
        self.series = early + [
            (durations_ns[low - first : high - first], weight - count, low)
            for durations_ns, weight, first in self.series
            if first + len(durations_ns) > absences.first
            for low, high, count in absences.pieces(first, first + len(durations_ns))
            if weight > count
        ]


def joined(packed: array[int], numbers: list[int] | array[int]) -> array[int]:
    """Append numbers to packed ones, in 32 bits each as long as all fit; `packed` is used up."""
    try:
        packed += array(packed.typecode, numbers)
    except OverflowError:
        packed = array("Q", packed) + array("Q", numbers)
    return packed


def rows(numbers: Iterable[int], width: int) -> Iterator[tuple[int, ...]]:
    """Cut a flat list into rows."""
    return zip(*[iter(numbers)] * width, strict=True)


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

    @property
    def first(self) -> int:
        """The first pass in which somebody did not complete."""
        return self._edges[0]

    def at(self, number: int) -> int:
        """Tell how many of those took part in a pass."""
        return self._counts[bisect_right(self._edges, number)]

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Cut the passes [start, end) where the count changes; yield (first, last, count)."""
        index = bisect_right(self._edges, start)
        while start < end:
            edge = self._edges[index] if index < len(self._edges) else end
            stop = min(edge, end)
            yield start, stop, self._counts[index]
            start = stop
            index += 1
