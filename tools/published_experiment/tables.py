"""What records say, for tables and plots."""

from __future__ import annotations

import json

from aisimulate.report.columns import aligned
from aisimulate.report.fronts import front_area, front_rows
from tools.published_experiment.records import DRAWN, FIXED, SEARCHED
from tools.published_experiment.svg import Series

COLOURS = {SEARCHED: "#1667c0", DRAWN: "#c05a16", FIXED: "#2e7d32"}


def series_of(run, kind):
    """Give the points of a record (per user, per GPU), and those of its front."""
    second, first = (target.value for target in reversed(run.config.goal.targets))
    measured, front = (
        [(candidate.objectives[second], candidate.objectives[first]) for candidate in candidates]
        for candidates in ([candidate for _, candidate in run.measured], run.candidates)
    )
    return Series(kind, COLOURS[kind], measured, front)


def table(records):
    """Set the fronts side by side, and what they took."""
    runs = [record.run for record in records.values()]
    targets = runs[0].config.goal.targets
    rows = [("", *records), ("candidates measured", *(str(distinct(run)) for run in runs))]
    spent = [record.spent for record in records.values()]
    rows.append(("wall time", *(f"{one.wall_s:,.0f} s" if one else "-" for one in spent)))
    rows.append(("CPU time", *(f"{one.cpu_s:,.0f} s" if one else "-" for one in spent)))
    rows += front_rows(targets, [run.candidates for run in runs])
    whole = front_area(targets, [candidate for run in runs for candidate in run.candidates])
    shares = (f"{front_area(targets, run.candidates) / whole:.1%}" for run in runs)
    return aligned([*rows, ("share of the area of all together", *shares)])


def distinct(run):
    """Count candidates; one replayed in part and then in full is one."""
    return len({json.dumps(candidate.config, sort_keys=True) for _, candidate in run.measured})
