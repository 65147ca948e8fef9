"""What the passes between two instants of a replay held: the terms of a linear regression."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aisimulate.core.units import NS_PER_MS
from aisimulate.replay.observe.hub import Observer

if TYPE_CHECKING:
    from aisimulate.engine.pass_view import RankPass
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.watch import WatchedWorker
    from aisimulate.fidelity.measured.run import Floats

TERMS = 7
"""Time in passes that prefill and in others (ms), passes, and in them prefill tokens, decodes, context
tokens, decodes beside prefills."""


class PassLog(Observer):
    """Logs the passes of the first worker. Of ranks that go together, the busiest of each pass counts."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, ...]] = []
        self._ends: list[float] = []
        self._start_ns = self._now_ns = 0

    def before(self, now_ns: int) -> None:
        """Move the clock."""
        self._now_ns = now_ns

    def started(self, worker: WatchedWorker) -> None:
        """Note when passes begin."""
        if worker.index == 0:
            self._start_ns = self._now_ns

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        """Log the passes that ended."""
        del terminal
        if worker.index:
            return
        work = max(worker.doing, key=_weight)
        passes = worker.planned_passes
        tokens = sum(chunk.end - chunk.start for chunk in (*work.prefills, *work.replays))
        batch = work.forwards
        context = passes * work.decode_context + batch * (passes * (passes - 1) // 2)
        lasted_ms = (worker.end_ns - self._start_ns) / NS_PER_MS
        times = (lasted_ms, 0.0) if tokens else (0.0, lasted_ms)
        self._rows.append((*times, passes, tokens, passes * batch, context, batch if tokens else 0))
        self._ends.append(worker.end_ns / NS_PER_MS)

    def between(self, begins_ms: Floats, ends_ms: Floats) -> Floats:
        """Sum the terms of all passes that ended after `begins_ms[i]` and by `ends_ms[i]`, in row i."""
        sums = np.vstack([np.zeros(TERMS), np.cumsum(np.array(self._rows), axis=0)])
        ends = np.array(self._ends)
        tolerance_ms = 1e-6
        first, last = (
            np.searchsorted(ends, instants + tolerance_ms, side="right") for instants in (begins_ms, ends_ms)
        )
        taken: Floats = sums[last] - sums[first]
        return taken


def _weight(work: RankPass) -> tuple[int, int]:
    return work.tokens, work.decode_context
