"""Choosing the load forecaster of predictive scaling on the traffic it will see (spec 05 section 3.2)."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from aisimulate.core.errors import UnsupportedError
from aisimulate.forecast.make import make_forecaster, minimum_points, predictor_fields
from aisimulate.forecast.traffic import TrafficForecaster, Window, window_loss
from aisimulate.spica.planner import throughput_intervals
from aisimulate.spica.presets import LOAD_PREDICTOR_PRESETS
from aisimulate.workload.windows import aggregate, build_windows, carry_shapes, read_arrivals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from aisimulate.spica.config import SmartSearchConfig
    from aisimulate.spica.planner import CompositeEntry

    # Replays the traffic with each candidate (by label) forecasting at the given interval (s), and tells
    # what it costs, or why it could not be replayed.
    PredictorReplay = Callable[[float, Mapping[str, CompositeEntry]], Mapping[str, "ReplayCost | str"]]

__all__ = [
    "LOAD_PREDICTOR_PRESETS",
    "LoadPredictorResult",
    "PresetScore",
    "ReplayCost",
    "Window",
    "build_windows",
    "evaluate_preset",
    "predictor_fields",
    "score_preset",
    "sweep_load_predictor",
    "sweep_windows",
    "window_loss",
]

FALLBACK = "constant_last"
ChooseBy = Literal["forecast_error", "replay"]


class ReplayCost(NamedTuple):
    """What a replay with a forecaster took: GPU-hours, and requests that missed their SLA."""

    gpu_hours: float
    sla_violations: float


@dataclass(frozen=True)
class LoadPredictorResult:
    """The winning forecaster entry per throughput interval (s), what it was chosen by, and why.

    `losses` and `n_scored` are per interval and label (preset id, or `custom_<index>` for a dict), and
    so are `costs` of a choice by replay. `notes` names skipped candidates.
    """

    best_by_interval: dict[float, CompositeEntry] = field(default_factory=dict)
    losses: dict[float, dict[str, float]] = field(default_factory=dict)
    reason: str = "no_throughput_scaling_candidate"
    n_scored: dict[float, dict[str, int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    costs: dict[float, dict[str, ReplayCost]] = field(default_factory=dict)

    def choices(self) -> list[str]:
        """Tell what was chosen for each interval among how many, and what that rests on."""
        return [self._choice(interval) for interval in self.losses]

    def _choice(self, interval_s: float) -> str:
        known = {label: loss for label, loss in self.losses[interval_s].items() if math.isfinite(loss)}
        costs = {label: cost for label, cost in self.costs.get(interval_s, {}).items() if _is_known(cost)}
        start = f"load predictor at {interval_s:g} s: "
        if costs:
            best = min(costs, key=lambda label: (costs[label].sla_violations, costs[label].gpu_hours))
            cost = costs[best]
            found = f"{cost.sla_violations:g} requests outside the SLA, {cost.gpu_hours:.4g} GPU hours"
            return f"{start}{best}, {found} (best of {len(costs)} by replay)"
        if not known:
            return f"{start}{FALLBACK}, because no window could be scored: the trace is too short for it"
        best = min(known, key=lambda label: known[label])
        count = self.n_scored[interval_s][best]
        return f"{start}{best}, loss {known[best]:.4f} over {count} windows (best of {len(known)})"


@dataclass(frozen=True, slots=True)
class PresetScore:
    """Mean loss of a candidate and the number of windows behind it (+inf and 0 when none)."""

    loss: float
    n_scored: int


def evaluate_preset(entry: str | Mapping[str, Any], windows: Sequence[Window], *, warmup: int = 1) -> float:
    """Mean one-step-ahead loss over the windows from index `warmup` on; +inf when there is none."""
    return score_preset(entry, windows, warmup=warmup).loss


def score_preset(
    entry: str | Mapping[str, Any],
    windows: Sequence[Window],
    *,
    warmup: int = 1,
    interval_s: float = 180.0,
) -> PresetScore:
    """Walk the windows of `interval_s`, forecasting each before observing it; a failure scores +inf.

    Raises UnsupportedError when the family's library is not available.
    """
    forecaster = TrafficForecaster(entry, interval_s=interval_s)
    losses: list[float] = []
    for index, window in enumerate(carry_shapes(windows)):
        predicted = forecaster.predict()
        if forecaster.failures:
            return PresetScore(math.inf, 0)
        if index >= warmup:
            losses.append(window_loss(predicted, window))
        forecaster.observe(window)
    return PresetScore(sum(losses) / len(losses), len(losses)) if losses else PresetScore(math.inf, 0)


def forecasts_matter(config: SmartSearchConfig) -> bool:
    """Whether there is a forecaster to choose: some policy forecasts, and the traffic is a series."""
    policies = config.search_space.planner_scaling_policy
    return bool(throughput_intervals(policies)) and config.workload.trace_path is not None


def sweep_load_predictor(
    config: SmartSearchConfig,
    *,
    show_progress: bool = True,
    choose_by: ChooseBy = "forecast_error",
    replay: PredictorReplay | None = None,
) -> LoadPredictorResult:
    """Pick a forecaster for each throughput interval among the config's candidates.

    Without throughput scaling there is nothing to pick; synthetic traffic has no series to learn.
    `choose_by="replay"` asks `replay` what each candidate costs instead of what it mispredicts:
    the fewest SLA violations win, then the fewest GPU-hours. Raises ValueError when it has none to ask.
    """
    if (choose_by == "replay") != (replay is not None):
        raise ValueError("choose_by 'replay' and a replay to ask belong together")
    intervals = throughput_intervals(config.search_space.planner_scaling_policy)
    if not intervals:
        return LoadPredictorResult()
    workload = config.workload
    if workload.trace_path is None:
        return LoadPredictorResult(dict.fromkeys(intervals, FALLBACK), {}, "static_workload_constant")
    # Windows are those of the replayed traffic, so the trace's speed-up counts.
    arrivals = [
        arrival._replace(timestamp_ms=arrival.timestamp_ms / workload.arrival_speedup_ratio)
        for arrival in read_arrivals(Path(workload.trace_path), workload.trace_format)
    ]
    windows = {interval: aggregate(arrivals, interval) for interval in intervals}
    result = sweep_windows(config.search_space.load_predictor_candidates, windows, replay=replay)
    if show_progress:
        for note in result.notes:
            print(note, file=sys.stderr)
    return result


def sweep_windows(
    candidates: Iterable[CompositeEntry],
    windows: Mapping[float, Sequence[Window]],
    *,
    replay: PredictorReplay | None = None,
) -> LoadPredictorResult:
    """Score every candidate on the windows of every interval (s), and pick one per interval.

    All candidates are scored on the same windows: those after the longest warm-up of any of them.
    """
    labelled = _labelled(candidates)
    warmup = max(minimum_points(predictor_fields(entry)) for entry in labelled.values())
    usable, notes = _usable(labelled)
    scores = {
        interval: {
            label: score_preset(entry, series, warmup=warmup, interval_s=interval)
            for label, entry in usable.items()
        }
        for interval, series in windows.items()
    }
    costs = (
        {} if replay is None else {interval: _costs(usable, interval, replay, notes) for interval in windows}
    )
    best = {interval: _winner(usable, _ranks(scores[interval], costs.get(interval))) for interval in windows}
    notes += [
        f"load predictors at {interval:g} s were chosen by forecast error: none could be replayed"
        for interval, found in costs.items()
        if not any(map(_is_known, found.values()))
    ]
    empty = [f"{interval:g}" for interval, entry in best.items() if entry is None]
    return LoadPredictorResult(
        best_by_interval={interval: FALLBACK if entry is None else entry for interval, entry in best.items()},
        losses={i: {label: score.loss for label, score in scored.items()} for i, scored in scores.items()},
        reason=f"swept; no_winner_fallback_constant_last@[{', '.join(empty)}]" if empty else "swept",
        n_scored={
            i: {label: score.n_scored for label, score in scored.items()} for i, scored in scores.items()
        },
        notes=tuple(notes),
        costs=costs,
    )


def _labelled(candidates: Iterable[CompositeEntry]) -> dict[str, CompositeEntry]:
    return {
        entry if isinstance(entry, str) else f"custom_{index}": entry
        for index, entry in enumerate(candidates)
    }


def _usable(labelled: Mapping[str, CompositeEntry]) -> tuple[dict[str, CompositeEntry], list[str]]:
    usable: dict[str, CompositeEntry] = {}
    skipped: dict[str, list[str]] = {}  # labels by what they lack
    for label, entry in labelled.items():
        try:
            make_forecaster(entry)
        except UnsupportedError as error:
            skipped.setdefault(str(error), []).append(label)
        else:
            usable[label] = entry
    candidates = {
        why: f"candidate{'s' * (len(labels) > 1)} {', '.join(labels)}" for why, labels in skipped.items()
    }
    return usable, [f"load predictor {what} skipped: {why}" for why, what in candidates.items()]


def _costs(
    entries: Mapping[str, CompositeEntry], interval_s: float, replay: PredictorReplay, notes: list[str]
) -> dict[str, ReplayCost]:
    """Replay every candidate; one that cannot be replayed costs infinitely much, and a note says why."""
    costs: dict[str, ReplayCost] = {}
    for label, cost in replay(interval_s, entries).items():
        if isinstance(cost, str):
            notes.append(f"load predictor candidate {label} at {interval_s:g} s was not replayed: {cost}")
            cost = ReplayCost(math.inf, math.inf)
        costs[label] = cost
    return costs


def _is_known(cost: ReplayCost) -> bool:
    return math.isfinite(cost.sla_violations)


def _ranks(
    scores: Mapping[str, PresetScore], costs: Mapping[str, ReplayCost] | None
) -> dict[str, tuple[float, ...]]:
    """Give what candidates are compared by, the lowest being the best."""
    losses = {label: score.loss for label, score in scores.items()}
    if costs is None or not any(map(_is_known, costs.values())):
        return {label: (loss,) for label, loss in losses.items()}
    return {label: (cost.sla_violations, cost.gpu_hours) for label, cost in costs.items()}


def _winner(
    entries: Mapping[str, CompositeEntry], ranks: Mapping[str, tuple[float, ...]]
) -> CompositeEntry | None:
    """Give the first of the best candidates; None when there is none with a finite rank."""
    best = min(ranks, key=lambda label: ranks[label], default=None)
    return None if best is None or math.inf in ranks[best] else entries[best]
