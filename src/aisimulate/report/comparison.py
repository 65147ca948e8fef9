"""A comparison on the terminal and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aisimulate.fidelity.definitions import DEFINITIONS
from aisimulate.fidelity.measured.metrics import STATISTICS, TITLES, VALUE
from aisimulate.report.columns import aligned
from aisimulate.report.numbers import number_text, percent_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aisimulate.fidelity.comparison import Comparison, Difference
    from aisimulate.fidelity.measured.run import MeasuredRun

_SHOWN = tuple(name for name in STATISTICS if name not in (VALUE, "std"))
_MISSING = "-"


def comparison_table(comparison: Comparison) -> str:
    """Lay both runs out side by side, percentiles first, then totals, errors below the numbers."""
    lines = [
        f"measured:  {run_text(comparison.measured)}",
        f"simulated: {run_text(comparison.simulated)}",
        "",
        *_distribution_lines(comparison),
        *_total_lines(comparison),
    ]
    lines += [
        f"request by request, {TITLES[pair.metric]}: median error {error_text(pair.median_error)}, "
        f"{pair.median_absolute_error:.1%} without sign, over {pair.requests:,} requests"
        for pair in comparison.pairs
    ]
    return "\n".join([*lines, *remarks(comparison), ""])


def run_text(run: MeasuredRun) -> str:
    """Name a run: its file, the tool, the load and how many requests completed."""
    completed = run.reported.get("completed_requests", {}).get(VALUE)
    parts = [run.path.name, run.tool, run.label, "" if completed is None else f"{completed:,.0f} completed"]
    return ", ".join(part for part in parts if part)


def remarks(comparison: Comparison) -> list[str]:
    """Say what only one side tells, what looks wrong, and where definitions differ."""
    lines = []
    for side, names in (("measured", comparison.only_measured), ("simulated", comparison.only_simulated)):
        if names:
            lines.append(f"only {side}: {', '.join(names)}")
    lines += [f"doubt: {doubt}" for doubt in comparison.doubts]
    tools = dict.fromkeys((comparison.measured.tool, comparison.simulated.tool))
    told = [*comparison.measured.notes, *comparison.simulated.notes]
    told += [text for tool in tools for text in DEFINITIONS.get(tool, ())]
    return lines + [f"note: {text}" for text in told]


def error_text(error: float | None) -> str:
    """Write a relative error with its sign."""
    return _MISSING if error is None else percent_text(error, 1)


def difference_rows(comparison: Comparison) -> list[tuple[str, str, str, str, str]]:
    """List metric, statistic, both values and the error, for the page."""
    return [
        (
            TITLES[item.metric],
            "" if item.statistic == VALUE else item.statistic,
            number_text(item.measured),
            number_text(item.simulated),
            error_text(item.error),
        )
        for item in comparison.differences
    ]


def comparison_json(comparison: Comparison) -> str:
    """Write a comparison as JSON."""
    metrics: dict[str, Any] = {}
    for item in comparison.differences:
        told = metrics.setdefault(item.metric, {"title": TITLES[item.metric], "statistics": {}})
        told["statistics"][item.statistic] = {
            "measured": item.measured,
            "simulated": item.simulated,
            "relative_error": item.error,
        }
    document = {
        "measured": _run_json(comparison.measured),
        "simulated": _run_json(comparison.simulated),
        "metrics": metrics,
        "only_measured": {name: comparison.measured.statistics(name) for name in comparison.only_measured},
        "only_simulated": {name: comparison.simulated.statistics(name) for name in comparison.only_simulated},
        "request_by_request": {
            pair.metric: {
                "requests": pair.requests,
                "median_relative_error": pair.median_error,
                "median_absolute_relative_error": pair.median_absolute_error,
            }
            for pair in comparison.pairs
        },
        "doubts": comparison.doubts,
    }
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _run_json(run: MeasuredRun) -> dict[str, Any]:
    return {
        "file": run.path.name,
        "format": run.tool,
        "load": run.label,
        "has_requests": run.requests is not None,
        "notes": list(run.notes),
    }


def _distribution_lines(comparison: Comparison) -> list[str]:
    found = {metric: comparison.of(metric) for metric in TITLES}
    found = {metric: told for metric, told in found.items() if told and VALUE not in told}
    shown = [name for name in _SHOWN if any(name in told for told in found.values())]
    if not shown:
        return []
    rows: list[Sequence[str]] = [("", *shown)]
    for metric, told in found.items():
        rows.append((TITLES[metric], *("" for _ in shown)))
        rows += _three_rows(told, shown)
    title, *lines = aligned(rows, to_right=range(1, len(shown) + 1))
    return [title, "-" * len(title), *lines, ""]


def _three_rows(told: dict[str, Difference], shown: Sequence[str]) -> Iterator[Sequence[str]]:
    items = [told.get(name) for name in shown]
    yield ("  measured", *(_MISSING if item is None else number_text(item.measured) for item in items))
    yield ("  simulated", *(_MISSING if item is None else number_text(item.simulated) for item in items))
    yield ("  error", *(_MISSING if item is None else error_text(item.error) for item in items))


def _total_lines(comparison: Comparison) -> list[str]:
    totals = [item for item in comparison.differences if item.statistic == VALUE]
    if not totals:
        return []
    rows: list[Sequence[str]] = [("", "measured", "simulated", "error")]
    rows += [
        (
            TITLES[item.metric],
            number_text(item.measured),
            number_text(item.simulated),
            error_text(item.error),
        )
        for item in totals
    ]
    title, *lines = aligned(rows, to_right=range(1, 4))
    return [title, "-" * len(title), *lines, ""]
