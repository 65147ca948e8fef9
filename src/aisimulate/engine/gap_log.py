"""A compact record of every inter-token gap of one worker, expanded once by the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from array import array

    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.sequence import Sequence


class GapLog:
    """Gaps between tokens, grouped.

    `runs`: (batch, context_tokens, passes, weight) - each pass of that run of `timer` is a gap of `weight`
    requests. `passes`: (duration_ns, weight) - one pass that is a gap of `weight` requests.
    `series`: (durations_ns, weight) - consecutive passes, each a gap of `weight` requests.
    `singles`: (gap_ns, sequence) - a gap that only this sequence saw (it was preempted or stalled).
    A negative weight takes back gaps of requests that did not finish.
    """

    __slots__ = ("passes", "runs", "series", "singles", "timer")

    def __init__(self, timer: PassTimer) -> None:
        self.timer = timer
        self.runs: list[tuple[int, int, int, int]] = []
        self.passes: list[tuple[int, int]] = []
        self.series: list[tuple[array[int], int]] = []
        self.singles: list[tuple[int, Sequence]] = []
