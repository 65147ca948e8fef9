"""Expansion of gap logs block by block: the millions of gaps of a long trace are never held at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.engine.gap_log import PASS_WIDTH, RUN_WIDTH
from aisimulate.engine.sequence import COMPLETED

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Iterator, Sequence

    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.replay.weighted import Block, Ints, Pairs

# Gaps priced at once: few enough that the temporaries stay in the cache and are recycled by the allocator.
BLOCK_PASSES = 1 << 16
_MOST_NUMBERS = 1 << 21


def gap_blocks(logs: Sequence[GapLog]) -> list[Block]:
    """Blocks of the gaps (ns) of all requests that completed, each of about `BLOCK_PASSES` and none empty.

    A block holds runs of similar duration, so a reader who looks for particular gaps needs few blocks.
    """
    return [*_point_blocks(logs), *_series_blocks(logs), *_run_blocks(logs)]


@dataclass(slots=True, frozen=True)
class Points:
    """Gaps that are there already."""

    gaps: Ints
    weights: Ints

    def pairs(self) -> Pairs:
        """Give the gaps and their weights."""
        return self.gaps, self.weights


@dataclass(slots=True, frozen=True)
class _Series:
    """Consecutive passes, as in `GapLog.series`."""

    rows: list[tuple[array[int], int, int]]

    def pairs(self) -> Pairs:
        gaps = np.frombuffer(b"".join(durations for durations, _, _ in self.rows), dtype=np.int64)
        weights = np.array([weight for _, weight, _ in self.rows], dtype=np.int64)
        return gaps, np.repeat(weights, [len(durations) for durations, _, _ in self.rows])


@dataclass(slots=True, frozen=True)
class _Runs:
    """Runs of decode passes of one timer; the columns are those of `GapLog.runs`."""

    timer: PassTimer
    batches: Ints
    contexts: Ints
    passes: Ints
    weights: Ints

    def pairs(self) -> Pairs:
        return self.timer.tally_ns(self.batches, self.contexts, self.passes, self.weights)

    def by_duration(self) -> _Runs:
        """Order the runs by the duration of their first pass."""
        order = np.argsort(self.timer.decodes_ns(self.batches, self.contexts), kind="stable")
        columns = (self.batches, self.contexts, self.passes, self.weights)
        return _Runs(self.timer, *(column[order] for column in columns))

    def blocks(self, size: int) -> Iterator[_Runs]:
        """Cut into parts of `size` passes (the last may be shorter), inside a run where need be."""
        ends = np.cumsum(self.passes)
        starts = ends - self.passes
        for low in range(0, int(ends[-1]), size):
            high = low + size
            part = slice(np.searchsorted(ends, low, side="right"), np.searchsorted(starts, high, side="left"))
            skipped = np.maximum(low - starts[part], 0)
            passes = np.minimum(ends[part], high) - starts[part] - skipped
            batches = self.batches[part]
            yield _Runs(
                self.timer, batches, self.contexts[part] + skipped * batches, passes, self.weights[part]
            )


def _columns(tables: list[array[int]], width: int) -> Ints:
    columns = np.empty((width, sum(map(len, tables)) // width), dtype=np.int64)
    start = 0
    for table in tables:
        stop = start + len(table) // width
        columns[:, start:stop] = np.frombuffer(table, dtype=table.typecode).reshape(-1, width).T
        start = stop
    return columns


def _point_blocks(logs: Sequence[GapLog]) -> Iterator[Points]:
    durations, weights, _ = _columns([log.packed_passes for log in logs], PASS_WIDTH)
    singles = [gap_ns for log in logs for gap_ns, sequence in log.singles if sequence.status == COMPLETED]
    if singles:
        durations = np.concatenate((durations, np.array(singles, dtype=np.int64)))
        weights = np.concatenate((weights, np.ones(len(singles), dtype=np.int64)))
    for low in range(0, len(durations), BLOCK_PASSES):
        yield Points(durations[low : low + BLOCK_PASSES].copy(), weights[low : low + BLOCK_PASSES].copy())


def _series_blocks(logs: Sequence[GapLog]) -> Iterator[_Series]:
    rows = [row for log in logs for row in log.series if row[0]]
    rows.sort(key=lambda row: row[0][0])
    start = passes = 0
    for stop, (durations, _, _) in enumerate(rows, start=1):
        passes += len(durations)
        if passes >= BLOCK_PASSES or stop == len(rows):
            yield _Series(rows[start:stop])
            start, passes = stop, 0


def _run_blocks(logs: Sequence[GapLog]) -> Iterator[_Runs]:
    for timer, timed in groupby(logs, attrgetter("timer")):
        for tables in _groups([log.packed_runs for log in timed]):
            yield from _Runs(timer, *_columns(tables, RUN_WIDTH)[:4]).by_duration().blocks(BLOCK_PASSES)


def _groups(tables: Iterable[array[int]]) -> Iterator[list[array[int]]]:
    """Group tables that are not empty, few enough numbers at a time for copies of them to be small."""
    group: list[array[int]] = []
    numbers = 0
    for table in filter(None, tables):
        if group and numbers + len(table) > _MOST_NUMBERS:
            yield group
            group, numbers = [], 0
        group.append(table)
        numbers += len(table)
    if group:
        yield group
