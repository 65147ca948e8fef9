"""A comparison as a page: distributions over each other, and every difference in a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.fidelity.measured.metrics import LATENCIES, TITLES
from aisimulate.report.comparison import difference_rows, error_text, remarks, run_text
from aisimulate.report.page.scrub import Scrubber
from aisimulate.report.page.sheet import Plot, Section, Sheet, Table, sheet_html

if TYPE_CHECKING:
    from aisimulate.fidelity.comparison import Comparison
    from aisimulate.fidelity.measured.run import MeasuredRun

_POINTS = 400
_QUANTILES = (
    ("min", 0.0),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("max", 1.0),
)
_HOVER = "%{y:.1%} take at most %{x:,.2f} ms<extra>%{fullData.name}</extra>"


def comparison_page(comparison: Comparison) -> str:
    """Write the page. Raises AISimulateError when the plotting library is missing."""
    paths = [comparison.measured.path, comparison.simulated.path]
    scrubber = Scrubber([*(str(path.resolve()) for path in paths), str(Path.cwd()), str(Path.home())])
    told = remarks(comparison)
    sections = [
        *_distributions(comparison),
        Section(
            "differences",
            "Every difference",
            ["The error is simulated / measured - 1."],
            tables=[
                Table(
                    "What both files tell",
                    ("metric", "statistic", "measured", "simulated", "error"),
                    difference_rows(comparison),
                    frozenset({1}),
                )
            ],
        ),
    ]
    if told:
        sections.append(Section("remarks", "Remarks", told))
    sheet = Sheet(
        "aisimulate · compare",
        f"{comparison.measured.path.name} and {comparison.simulated.path.name}",
        {"Measured": run_text(comparison.measured), "Simulated": run_text(comparison.simulated)},
        _answer(comparison),
        sections,
    )
    return sheet_html(sheet, scrubber)


def _answer(comparison: Comparison) -> str:
    parts = []
    for metric, statistic in (
        ("ttft_ms", "mean"),
        ("tpot_ms", "mean"),
        ("e2e_latency_ms", "mean"),
        ("output_throughput_tok_s", "value"),
    ):
        found = comparison.of(metric).get(statistic)
        if found is not None:
            mean = " (mean)" if statistic == "mean" else ""
            parts.append(f"{TITLES[metric]}{mean}: {error_text(found.error)}")
    return "; ".join(parts) or "The files have no common figure among the usual ones."


def _distributions(comparison: Comparison) -> list[Section]:
    plots = []
    for metric in LATENCIES:
        traces = [
            trace
            for side, run, look in (
                ("measured", comparison.measured, {"colour": "accent"}),
                ("simulated", comparison.simulated, {"colour": "front", "line": {"dash": "dash"}}),
            )
            if (trace := _curve(side, run, metric, look)) is not None
        ]
        if traces:
            title = TITLES[metric]
            plots.append(
                Plot(
                    f"cdf-{metric}",
                    f"Distribution of {title} of both runs; the table below holds their percentiles",
                    traces,
                    title,
                    "share of the samples",
                    x={"type": "log"},
                    y={"tickformat": ".0%", "range": [-0.02, 1.02]},
                    size="short",
                )
            )
    text = (
        "Each curve tells which share of the samples took at most so long. Where a file has single requests, "
        "the curve is exact; else it joins the percentiles that the file tells."
    )
    return [Section("distributions", "Distributions", [text], plots)] if plots else []


def _curve(side: str, run: MeasuredRun, metric: str, look: dict[str, Any]) -> dict[str, Any] | None:
    points = _points(run, metric)
    points = [(value, share) for value, share in points if value > 0]  # the axis is logarithmic
    if len(points) < 2:
        return None
    line = {"width": 2, **look.get("line", {})}
    return {
        "type": "scatter",
        "mode": "lines",
        "name": side,
        "x": [value for value, _ in points],
        "y": [share for _, share in points],
        "hovertemplate": _HOVER,
        **look,
        "line": line,
    }


def _points(run: MeasuredRun, metric: str) -> list[tuple[float, float]]:
    """Give values with the share of the sample that is not above them."""
    sample = None if run.requests is None else run.requests.sample(metric)
    if sample is None:
        told = run.statistics(metric)
        return [(told[name], share) for name, share in _QUANTILES if name in told]
    ordered = np.sort(sample)
    places = np.unique(np.linspace(0, len(ordered) - 1, min(_POINTS, len(ordered))).round().astype(int))
    return [(float(ordered[place]), (int(place) + 1) / len(ordered)) for place in places]
