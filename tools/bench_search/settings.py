"""What `make bench-search` runs, and what it must show."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# CPU seconds of one batch of eight, by the number of measurements so far; and memory of the process.
SUGGEST_S = {320: 0.6, 640: 1.2}
PEAK_MB = 300.0

_SCREENED = {40: 0.87, 80: 0.92, 320: 0.96}
_UNSCREENED = {160: 0.85, 320: 0.93}


@dataclass(frozen=True, slots=True)
class Setting:
    """One problem, with or without its screen. `shares` are lower bounds by number of measurements."""

    problem: str
    screened: bool
    evaluations: int = 320
    shares: Mapping[int, float] = field(default_factory=dict)
    most_seeds: int | None = None

    @property
    def name(self) -> str:
        """How the table calls it."""
        return f"{self.problem} {'with' if self.screened else 'without'} screen"


SETTINGS = (
    Setting("disagg", True, shares=_SCREENED),
    Setting("disagg", False, shares=_UNSCREENED),
    Setting("agg", True, shares=_SCREENED),
    Setting("agg", False, shares=_UNSCREENED),
    Setting("deepseek", True, shares=_SCREENED),
    Setting("deepseek", False, shares=_UNSCREENED),
    Setting("router", False, 160, {160: 0.97}),
    Setting("disagg", True, 640, most_seeds=1),
)


@dataclass(frozen=True, slots=True)
class Row:
    """The searches of one setting by one sampler, one per seed."""

    setting: Setting
    sampler: str
    runs: Sequence[dict[str, Any]]

    def shares(self) -> dict[int, float]:
        """Return the median share of the best possible by number of measurements."""
        return self._median("shares")

    def suggest_s(self) -> dict[int, float]:
        """Return the median CPU seconds of a batch by number of measurements."""
        return self._median("suggest_s")

    def peak_mb(self) -> float:
        """Return the largest peak memory."""
        return max(float(run["peak_mb"]) for run in self.runs)

    def total(self, count: str) -> int:
        """Sum a count over the searches."""
        return sum(int(run[count]) for run in self.runs)

    def missed(self) -> Iterator[str]:
        """Say which bounds our sampler does not keep."""
        shares, suggest_s = self.shares(), self.suggest_s()
        for mark, bound in self.setting.shares.items():
            share = shares.get(mark, 0.0)
            if share < bound:
                yield f"{self.setting.name}: {share:.3f} at {mark} measurements, below {bound:.2f}"
        for mark, bound in SUGGEST_S.items():
            if suggest_s.get(mark, 0.0) > bound:
                yield f"{self.setting.name}: {suggest_s[mark]:.2f} CPU s per batch at {mark}, above {bound}"
        if self.peak_mb() > PEAK_MB:
            yield f"{self.setting.name}: {self.peak_mb():.0f} MB, above {PEAK_MB:.0f}"
        if self.total("duplicates"):
            yield f"{self.setting.name}: {self.total('duplicates')} duplicates"

    def _median(self, field: str) -> dict[int, float]:
        marks = sorted({int(mark) for run in self.runs for mark in run[field]})
        values = {
            mark: [run[field][str(mark)] for run in self.runs if str(mark) in run[field]] for mark in marks
        }
        return {mark: float(median(found)) for mark, found in values.items() if len(found) == len(self.runs)}
