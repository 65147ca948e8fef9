"""Candidates that came nearest to the bounds of a goal, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.report.shapes import knobs_text, workers_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.spica.outcome import Outcome


def near_miss_lines(outcomes: Iterable[Outcome]) -> list[str]:
    """Write one line per candidate: what it is, which bounds it misses and by how much."""
    return [
        f"nearest: {workers_text(outcome.config)}, {knobs_text(outcome.config)}: {outcome.reason}"
        for outcome in outcomes
    ]
