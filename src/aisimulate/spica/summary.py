"""Counts of a search and the lines that sum it up (spec 05 section 11.5)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from aisimulate.spica.outcome import Outcome, Reason, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.config import Candidate, OptimizationGoal, OptimizationTarget

_SHOWN_REASONS = 3


@dataclass(slots=True)
class Tally:
    """How the attempts ended. `evaluated` leaves out unsupported ones and cache hits.

    `reasons` counts the texts of failures, `gates` the categories of what was refused as infeasible.
    """

    counts: Counter[str] = field(default_factory=Counter)
    cache_hits: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    gates: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome, *, cached: bool) -> None:
        """Count one settled suggestion."""
        if cached:
            self.cache_hits += 1
            return
        self.counts[outcome.status.value] += 1
        if outcome.status in (Status.FAILED, Status.TIMED_OUT):
            self.reasons[outcome.reason] += 1
        elif outcome.status is Status.INFEASIBLE:
            self.gates[(outcome.category or Reason.UNKNOWN).value] += 1

    def count(self, status: Status) -> int:
        """Fresh attempts that ended in `status`."""
        return self.counts[status.value]

    @property
    def evaluated(self) -> int:
        """Attempts that were evaluated: feasible + infeasible + timed out + failed."""
        return sum(self.counts.values()) - self.count(Status.UNSUPPORTED)

    @property
    def failed(self) -> int:
        """Attempts that failed or were timed out."""
        return self.count(Status.FAILED) + self.count(Status.TIMED_OUT)


@dataclass(slots=True)
class Progress:
    """Where a running search stands; shared with the observers, which only read it.

    `total` is the most feasible measurements the search may still end with.
    """

    goal: OptimizationGoal
    total: int = 0
    tally: Tally = field(default_factory=Tally)
    best: float | None = None

    def add(self, outcome: Outcome, *, cached: bool) -> None:
        """Count one settled suggestion and keep the best headline value, in natural units."""
        self.tally.add(outcome, cached=cached)
        if outcome.candidate is None or cached:
            return
        value = headline_value(self.goal, outcome.candidate)
        if self.best is None or self._better(value, self.best):
            self.best = value

    def _better(self, value: float, than: float) -> bool:
        return value > than if headline_target(self.goal).maximize else value < than

    @property
    def best_text(self) -> str:
        """The best value so far with 4 significant digits, or "-"."""
        return "-" if self.best is None else four_digits(self.best)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many distinct points of a branch were tried; `size` is None for a continuous space."""

    deployment_mode: str
    tried: int
    size: int | None

    @property
    def text(self) -> str:
        """For example "agg 3 of 27 points"."""
        whole = "points of a continuous space" if self.size is None else f"of {self.size:,} points"
        return f"{self.deployment_mode} {self.tried:,} {whole}"


def four_digits(value: float) -> str:
    """Write a number with 4 significant digits, never with an exponent."""
    text = f"{value:.4g}"
    return format(Decimal(text), "f") if "e" in text else text


def headline_target(goal: OptimizationGoal) -> OptimizationTarget:
    """Name the one target a progress line speaks of: the goal's own, or the first Pareto objective."""
    return goal.targets[0]


def headline_value(goal: OptimizationGoal, candidate: Candidate) -> float:
    """Give a candidate's headline in natural units: latencies positive, whatever the score's sign (D14)."""
    target = headline_target(goal)
    if candidate.objectives is not None:
        return candidate.objectives[target.value]
    return candidate.score if target.maximize else -candidate.score


def summary_lines(
    progress: Progress,
    candidates: list[Candidate],
    *,
    coverage: Sequence[Coverage] = (),
    interrupted: bool = False,
) -> list[str]:
    """Sum a search up: one line of counts and the result, then what was tried and why attempts ended."""
    tally = progress.tally
    result = _result_text(progress, candidates, interrupted=interrupted)
    lines = [f"smart-sweep done: {_counts_text(tally)}; {result}"]
    if coverage:
        lines.append(f"smart-sweep tried: {', '.join(part.text for part in coverage)}")
    if tally.gates:
        lines.append(f"smart-sweep infeasible (gated): {gates_text(tally)}")
    if tally.reasons:
        lines.append(f"smart-sweep failure reason(s): {_reasons_text(tally.reasons)}")
    return lines


def gates_text(tally: Tally) -> str:
    """List the categories of what was infeasible, most frequent first."""
    return ", ".join(f"{category} (x{count})" for category, count in tally.gates.most_common())


def _counts_text(tally: Tally) -> str:
    parts = [
        f"{tally.count(Status.FEASIBLE)}/{tally.evaluated} attempts feasible",
        f"{tally.count(Status.INFEASIBLE)} infeasible (gated)",
        f"{tally.count(Status.UNSUPPORTED)} backend-unsupported",
        f"{tally.count(Status.FAILED)} replay-failed",
        f"{tally.count(Status.TIMED_OUT)} timed out",
        f"{tally.cache_hits} cache hits",
    ]
    return ", ".join(parts)


def _result_text(progress: Progress, candidates: list[Candidate], *, interrupted: bool) -> str:
    if not candidates:
        if interrupted:
            return "interrupted before a feasible candidate was found"
        return "no feasible candidate: check backends, SLA, gpu_budget and replay errors"
    if progress.goal.is_pareto:
        return f"pareto front: {len(candidates)}"
    target, best = progress.goal.target, headline_value(progress.goal, candidates[0])
    missed = " (no request met the SLA)" if target.needs_sla and best == 0 else ""
    return f"best {target.value}={four_digits(best)}{missed}"


def _reasons_text(reasons: Counter[str]) -> str:
    shown = [f"{text} (x{count})" for text, count in reasons.most_common(_SHOWN_REASONS)]
    hidden = len(reasons) - len(shown)
    if hidden:
        shown.append(f"+{hidden} more distinct reason(s)")
    return "; ".join(shown)
