"""A tick of a planner: when its branches are due, and what comes of it (spec 03 section B2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aisimulate.planner.state import Verdict

if TYPE_CHECKING:
    from aisimulate.forecast.traffic import Window
    from aisimulate.planner.settings import PlannerSettings
    from aisimulate.planner.state import Counts

_CLOSE_S = 1e-9


@dataclass(slots=True)
class TickResult:
    """What a planner decides at a tick: `targets` by pool (None: no change), and how it came to that."""

    targets: Counts | None = None
    load: Verdict = field(default_factory=Verdict)
    throughput: Verdict = field(default_factory=Verdict)
    forecast: Window | None = None
    engine_rps: dict[str, float] = field(default_factory=dict)

    @property
    def reason(self) -> str | None:
        """The reason of the branch that decided."""
        return self.load.reason or self.throughput.reason


class Cadence:
    """When the branches are due; ticks come in equal steps."""

    def __init__(self, settings: PlannerSettings) -> None:
        self._settings = settings
        self._ticks = 1
        self.at_s = settings.interval_s
        self._last_load_s = self._last_throughput_s = 0.0

    @property
    def load_due(self) -> bool:
        """Whether passes are looked at in this tick."""
        return self.at_s - self._last_load_s >= self._settings.load_interval_s - _CLOSE_S

    @property
    def throughput_due(self) -> bool:
        """Whether a forecast is made in this tick."""
        settings = self._settings
        if not settings.scales_by_throughput:
            return False
        return self.at_s - self._last_throughput_s >= settings.throughput_interval_s - _CLOSE_S

    @property
    def uses_traffic(self) -> bool:
        """Whether the traffic since its last use is looked at in this tick."""
        settings = self._settings
        if settings.scales_by_throughput:
            return self.throughput_due
        return settings.target == "sla" and self.load_due

    def advance(self) -> None:
        """Go on to the next tick."""
        if self.load_due:
            self._last_load_s = self.at_s
        if self.throughput_due:
            self._last_throughput_s = self.at_s
        self._ticks += 1
        self.at_s = self._ticks * self._settings.interval_s  # sums of fractions would drift
