"""Choosing the load forecaster of predictive scaling by its one-step-ahead error (spec 05 section 3.2)."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import UnsupportedError
from aisimulate.spica.composites import check_family
from aisimulate.spica.load_windows import Window, aggregate, build_windows, carry_shapes, read_arrivals
from aisimulate.spica.planner import throughput_intervals
from aisimulate.spica.predictors import make_forecaster, minimum_points
from aisimulate.spica.presets import LOAD_PREDICTOR_PRESETS, PREDICTOR_DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aisimulate.spica.config import SmartSearchConfig
    from aisimulate.spica.planner import CompositeEntry

__all__ = [
    "LOAD_PREDICTOR_PRESETS",
    "LoadPredictorResult",
    "PresetScore",
    "Window",
    "build_windows",
    "evaluate_preset",
    "predictor_fields",
    "score_preset",
    "sweep_load_predictor",
    "window_loss",
]

FALLBACK = "constant_last"
_FAMILY_FIELDS = {
    "prophet": ("prophet_window_size",),
    "kalman": ("kalman_q_level", "kalman_q_trend", "kalman_r", "kalman_min_points"),
}


@dataclass(frozen=True)
class LoadPredictorResult:
    """The winning forecaster entry per throughput interval (s), the losses behind it, and why.

    `losses` and `n_scored` are per interval and label (preset id, or `custom_<index>` for a dict);
    `notes` names skipped candidates.
    """

    best_by_interval: dict[float, CompositeEntry] = field(default_factory=dict)
    losses: dict[float, dict[str, float]] = field(default_factory=dict)
    reason: str = "no_throughput_scaling_candidate"
    n_scored: dict[float, dict[str, int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PresetScore:
    """Mean loss of a candidate and the number of windows behind it (+inf and 0 when none)."""

    loss: float
    n_scored: int


def predictor_fields(entry: str | Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a forecaster entry: family, log flag, and the fields of its family with their defaults.

    Raises ValueError for an unknown preset or family.
    """
    if isinstance(entry, str):
        if entry not in LOAD_PREDICTOR_PRESETS:
            raise ValueError(f"unknown load predictor {entry!r}; allowed: {list(LOAD_PREDICTOR_PRESETS)}")
        entry = LOAD_PREDICTOR_PRESETS[entry]
    settings = {**PREDICTOR_DEFAULTS, **entry}
    check_family(settings.get("load_predictor"))
    names = ("load_predictor", "load_predictor_log1p", *_FAMILY_FIELDS.get(settings["load_predictor"], ()))
    return {name: settings[name] for name in names}


def window_loss(predicted: Window, actual: Window) -> float:
    """Weighted log-scale error: 0.4 each on prefill and decode tokens per window, 0.1 on each mean length."""
    # Each value is cut at zero before it is multiplied, so that two negative ones do not cancel.
    guess, truth = ([max(value, 0.0) for value in window] for window in (predicted, actual))
    return (
        0.4 * _log_error(guess[0] * guess[1], truth[0] * truth[1])
        + 0.4 * _log_error(guess[0] * guess[2], truth[0] * truth[2])
        + 0.1 * _log_error(guess[1], truth[1])
        + 0.1 * _log_error(guess[2], truth[2])
    )


def _log_error(predicted: float, actual: float) -> float:
    return abs(math.log1p(predicted) - math.log1p(actual))


def evaluate_preset(entry: str | Mapping[str, Any], windows: Sequence[Window], *, warmup: int = 1) -> float:
    """Mean one-step-ahead loss over the windows from index `warmup` on; +inf when there is none."""
    return score_preset(entry, windows, warmup=warmup).loss


def score_preset(
    entry: str | Mapping[str, Any], windows: Sequence[Window], *, warmup: int = 1
) -> PresetScore:
    """Walk the windows, forecasting each before observing it; a forecaster that raises scores +inf.

    Raises UnsupportedError when the family's library is not available.
    """
    forecasters = [make_forecaster(predictor_fields(entry)) for _ in range(3)]
    losses: list[float] = []
    for index, window in enumerate(carry_shapes(windows)):
        try:
            predicted = Window(*(forecaster.predict() for forecaster in forecasters))
        except ArithmeticError:
            return PresetScore(math.inf, 0)
        if index >= warmup:
            losses.append(window_loss(predicted, window))
        for forecaster, value in zip(forecasters, (window.num_req, window.isl, window.osl), strict=True):
            forecaster.add(value)
    return PresetScore(sum(losses) / len(losses), len(losses)) if losses else PresetScore(math.inf, 0)


def sweep_load_predictor(config: SmartSearchConfig, *, show_progress: bool = True) -> LoadPredictorResult:
    """Pick a forecaster for each throughput interval among the config's candidates.

    Without throughput scaling there is nothing to pick; synthetic traffic has no series to learn.
    """
    intervals = throughput_intervals(config.search_space.planner_scaling_policy)
    if not intervals:
        return LoadPredictorResult()
    workload = config.workload
    if workload.trace_path is None:
        return LoadPredictorResult(dict.fromkeys(intervals, FALLBACK), {}, "static_workload_constant")
    # Windows are those of the replayed traffic, so the trace's speed-up counts.
    arrivals = [
        arrival._replace(timestamp_ms=arrival.timestamp_ms / workload.arrival_speedup_ratio)
        for arrival in read_arrivals(Path(workload.trace_path))
    ]
    windows = {interval: aggregate(arrivals, interval) for interval in intervals}
    result = _sweep(config.search_space.load_predictor_candidates, windows)
    if show_progress:
        for note in result.notes:
            print(note, file=sys.stderr)
    return result


def _sweep(
    candidates: Iterable[CompositeEntry], windows: Mapping[float, list[Window]]
) -> LoadPredictorResult:
    labelled = _labelled(candidates)
    warmup = max(minimum_points(predictor_fields(entry)) for entry in labelled.values())
    usable, notes = _usable(labelled)
    scores = {
        interval: {label: score_preset(entry, series, warmup=warmup) for label, entry in usable.items()}
        for interval, series in windows.items()
    }
    best = {interval: _winner(usable, scored) for interval, scored in scores.items()}
    empty = [f"{interval:g}" for interval, entry in best.items() if entry is None]
    return LoadPredictorResult(
        best_by_interval={interval: FALLBACK if entry is None else entry for interval, entry in best.items()},
        losses={i: {label: score.loss for label, score in scored.items()} for i, scored in scores.items()},
        reason=f"swept; no_winner_fallback_constant_last@[{', '.join(empty)}]" if empty else "swept",
        n_scored={
            i: {label: score.n_scored for label, score in scored.items()} for i, scored in scores.items()
        },
        notes=tuple(notes),
    )


def _labelled(candidates: Iterable[CompositeEntry]) -> dict[str, CompositeEntry]:
    return {
        entry if isinstance(entry, str) else f"custom_{index}": entry
        for index, entry in enumerate(candidates)
    }


def _usable(labelled: Mapping[str, CompositeEntry]) -> tuple[dict[str, CompositeEntry], list[str]]:
    usable: dict[str, CompositeEntry] = {}
    notes: list[str] = []
    for label, entry in labelled.items():
        try:
            make_forecaster(predictor_fields(entry))
        except UnsupportedError as error:
            notes.append(f"load predictor candidate {label} skipped: {error}")
        else:
            usable[label] = entry
    return usable, notes


def _winner(
    entries: Mapping[str, CompositeEntry], scored: Mapping[str, PresetScore]
) -> CompositeEntry | None:
    best, lowest = None, math.inf
    for label, score in scored.items():
        if score.loss < lowest:
            best, lowest = entries[label], score.loss
    return best
