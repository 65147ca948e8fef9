"""One measured (or simulated) run, whatever tool wrote it down."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from aisimulate.fidelity.measured.metrics import VALUE
from aisimulate.fidelity.measured.statistics import summary, weighted_summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Requests:
    """The completed requests of a run in the order of the file: a column has one entry for each.

    A column is None where the file does not tell it of any request, and an entry NaN where it does not tell
    it of that one. Instants count from the first arrival (or, without arrivals, start). `gaps_ms` alone has
    one entry for each gap between two tokens (or two chunks, where the tool sees only chunks).
    """

    arrival_ms: Floats | None = None
    scheduled_ms: Floats | None = None
    first_token_ms: Floats | None = None
    last_token_ms: Floats | None = None
    ttft_ms: Floats | None = None
    ttst_ms: Floats | None = None
    tpot_ms: Floats | None = None
    e2e_latency_ms: Floats | None = None
    input_tokens: Floats | None = None
    output_tokens: Floats | None = None
    gaps_ms: Floats | None = None

    def __len__(self) -> int:
        columns = (getattr(self, item.name) for item in fields(self) if item.name != "gaps_ms")
        return next((len(column) for column in columns if column is not None), 0)

    def sample(self, metric: str) -> Floats | None:
        """Give the sample of a metric, without what is missing; None where there is none."""
        if metric == "itl_ms":
            return _known(self.gaps_ms)
        if metric == "ntpot_ms":
            return _known(self._per_output_token())
        if metric == "user_rate_tok_s":
            return None if self.tpot_ms is None else _known(_inverse(self.tpot_ms))
        return _known(getattr(self, metric)) if metric in _COLUMNS else None

    def statistics(self, metric: str) -> dict[str, float]:
        """Give the statistics of a metric; empty where there is no sample."""
        if metric in _WEIGHTED:
            return self._weighted(metric)
        sample = self.sample(metric)
        return {} if sample is None else summary(sample)

    def total(self, metric: str) -> float | None:
        """Give a total over the time from the first arrival to the last token; None where it is not told."""
        if metric not in _TOTALS or self.arrival_ms is None or self.last_token_ms is None:
            return None
        duration_ms = float(np.nanmax(self.last_token_ms) - np.nanmin(self.arrival_ms))
        if metric == "duration_ms":
            return duration_ms
        columns = [getattr(self, name) for name in _TOTALS[metric]]
        if duration_ms <= 0 or any(item is None for item in columns):
            return None
        amount = sum(float(np.nansum(item)) for item in columns) if columns else float(len(self))
        return amount / duration_ms * 1000.0

    def _per_output_token(self) -> Floats | None:
        if self.e2e_latency_ms is None or self.output_tokens is None:
            return None
        return self.e2e_latency_ms * _inverse(self.output_tokens) / 1000.0

    def _weighted(self, metric: str) -> dict[str, float]:
        values = self.tpot_ms if metric == "weighted_tpot_ms" else self._per_output_token()
        if values is None or self.output_tokens is None:
            return {}
        weights = self.output_tokens - (1.0 if metric == "weighted_tpot_ms" else 0.0)
        told = np.isfinite(values) & (weights > 0)
        return weighted_summary(values[told], weights[told])


_COLUMNS = frozenset(item.name for item in fields(Requests)) - {"gaps_ms"}
# Totals by the columns that they add up; without any they count requests.
_TOTALS: dict[str, tuple[str, ...]] = {
    "duration_ms": (),
    "request_throughput_rps": (),
    "output_throughput_tok_s": ("output_tokens",),
    "input_throughput_tok_s": ("input_tokens",),
    "total_throughput_tok_s": ("input_tokens", "output_tokens"),
}
_WEIGHTED = ("weighted_tpot_ms", "weighted_ntpot_ms")


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """What a file tells of one run.

    `reported` holds what the file itself says, by metric and statistic (`metrics.py` has the names).
    `requests` is there where the file has single requests. `label` tells runs of one file apart.
    """

    path: Path
    tool: str
    reported: Mapping[str, Mapping[str, float]]
    requests: Requests | None = None
    label: str = ""
    notes: Sequence[str] = field(default_factory=tuple)

    def statistics(self, metric: str) -> dict[str, float]:
        """Give the statistics of a metric: from the requests where they tell it, else as reported.

        Totals are as reported, else over the time from the first arrival to the last token.
        """
        if self.requests is None:
            return dict(self.reported.get(metric, {}))
        total = self.requests.total(metric)
        derived = {} if total is None else {VALUE: total}
        return {**derived, **self.reported.get(metric, {}), **self.requests.statistics(metric)}


def column(values: Sequence[float | None]) -> Floats | None:
    """Make a column of what a file tells of its requests; None where it tells nothing."""
    if all(value is None for value in values):
        return None
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def since_first(*columns: Floats | None) -> list[Floats | None]:
    """Count instants from the earliest of the first column that there is."""
    told = [item for item in columns if item is not None]
    if not told:
        return list(columns)
    start = np.nanmin(told[0])
    return [None if item is None else item - start for item in columns]


def in_ms(seconds: Floats | None) -> Floats | None:
    """Turn a column of seconds into one of ms."""
    return None if seconds is None else seconds * 1000.0


def per_gap(spans: Floats, output_tokens: Floats) -> Floats:
    """Divide times from first to last token by the gaps between tokens; NaN where there is none."""
    found = np.full(len(output_tokens), np.nan)
    np.divide(spans, output_tokens - 1, out=found, where=output_tokens > 1)
    return found


def _known(values: Floats | None) -> Floats | None:
    if values is None:
        return None
    told = values[np.isfinite(values)]
    return told if len(told) else None


def _inverse(values: Floats) -> Floats:
    """Give 1000 / value; NaN where that is not finite."""
    inverse = np.full(len(values), np.nan)
    np.divide(1000.0, values, out=inverse, where=values > 0)
    return inverse
