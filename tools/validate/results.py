"""The outcomes of the last full validation, from which the documentation's page can be made again."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from tools.validate.outcomes import Outcome
from tools.validate.scored import Judged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tools.validate.runs import MeasuredRun

_COLUMNS = ("id", "outcome", "ttft_ms", "tpot_ms", "confidence", "doubts", "reason")
_BETWEEN_DOUBTS = " | "


def results_text(found: Iterable[Judged]) -> str:
    """Write outcomes as a table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for one in found:
        outcome = one.outcome
        times = (repr(outcome.ttft_ms), repr(outcome.tpot_ms))
        doubts = _BETWEEN_DOUBTS.join(one.doubts)
        writer.writerow((outcome.run.id, outcome.kind, *times, one.grade, doubts, outcome.reason))
    return text.getvalue()


def read_results(path: Path, runs: Sequence[MeasuredRun]) -> list[Judged]:
    """Read the same back. Raises KeyError for a run without an outcome."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    found = []
    for run in runs:
        row = rows[run.id]
        times = float(row["ttft_ms"]), float(row["tpot_ms"])
        doubts = tuple(filter(None, row["doubts"].split(_BETWEEN_DOUBTS)))
        found.append(Judged(Outcome(run, row["outcome"], row["reason"], *times), row["confidence"], doubts))
    return found
