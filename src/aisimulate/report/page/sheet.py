"""A page of tables and plots, one HTML file that fetches nothing: comparisons and sensitivities.

It looks like the result page of a search and keeps its rules: only its own scripts may run, texts are
escaped, and every plot has a table with its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aisimulate.report.page.render import asset, csp_hash, environment, plotly_js, script_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.report.page.scrub import Scrubber

_SCRIPTS = ("helpers.js", "charts.js", "sheet.js")


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: plotly traces, whose `colour` names a colour of the page, and the titles of its axes.

    `label` says what it shows to those who do not see it. `x` and `y` add to the axes.
    """

    name: str
    label: str
    traces: Sequence[Mapping[str, Any]]
    x_title: str
    y_title: str
    x: Mapping[str, Any] = field(default_factory=dict)
    y: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    size: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts; the first cell of a row is its head. `texts` are the columns of plain text."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page."""

    name: str
    title: str
    paragraphs: Sequence[str] = ()
    plots: Sequence[Plot] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """A whole page."""

    kicker: str
    title: str
    facts: Mapping[str, str]
    answer: str
    sections: Sequence[Section]


def sheet_html(sheet: Sheet, scrubber: Scrubber) -> str:
    """Write the page. Raises AISimulateError when the plotting library is not where its package says."""
    scripts = {"plotly": plotly_js(), "page": "\n".join(asset(name) for name in _SCRIPTS)}
    plots = [_plot(plot) for section in sheet.sections for plot in section.plots]
    data = {"rows": [], "plots": plots}
    return (
        environment()
        .get_template("sheet.html.j2")
        .render(
            sheet=sheet,
            data=script_json(scrubber.value(data)),
            scripts=scripts,
            script_hashes=" ".join(csp_hash(text) for text in scripts.values()),
            style=asset("page.css"),
            scrub=scrubber.text,
        )
    )


def _plot(plot: Plot) -> dict[str, Any]:
    return {
        "name": plot.name,
        "traces": [dict(trace) for trace in plot.traces],
        "x_title": plot.x_title,
        "y_title": plot.y_title,
        "x": dict(plot.x),
        "y": dict(plot.y),
        "extra": dict(plot.extra),
    }
