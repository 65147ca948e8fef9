"""The result in lines: the same are printed and written into the documentation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tools.validate.errors import Errors
from tools.validate.front_end import preset
from tools.validate.groups import groups
from tools.validate.leave_out import curves, scored_methods
from tools.validate.outcomes import KINDS
from tools.validate.published import LINES
from tools.validate.scored import scored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tools.validate.outcomes import Outcome
    from tools.validate.scored import Judged, Scored

_PRESET_GROUPS = ("all", "clean", "sglang", "trtllm", "vllm")

Table = tuple[str, list[tuple[str, ...]]]
"""A title, and rows of cells of which the first are the column titles."""


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """Count the outcomes; together they are all runs."""
    counts = Counter(outcome.kind for outcome in outcomes)
    rows = [("outcome", "runs"), *((kind, str(counts[kind])) for kind in KINDS)]
    return "Outcomes", [*rows, ("all", str(len(outcomes)))]


def group_table(runs: Sequence[Scored]) -> Table:
    """Errors by group, uncalibrated: TTFT of the engine, TTFT at the client, TPOT."""
    rows = [("runs", "n", "TTFT", "TTFT at the client", "TPOT")]
    for name, members in groups(runs):
        engine = Errors.of(one.outcome.ttft_error for one in members)
        client = Errors.of(one.front_end.error(one.outcome) for one in members)
        tpot = Errors.of(one.outcome.tpot_error for one in members)
        rows.append((name, str(len(members)), str(engine), str(client), str(tpot)))
    return "Uncalibrated", rows


def front_end_table(runs: Sequence[Scored]) -> Table:
    """The front end used for each backend and model."""
    rows = [("backend", "scored model", "stream interval, tokens", "offset, ms")]
    seen = {
        (one.run.backend, one.run.family): (one.front_end.stream_interval, one.front_end.ttft_offset_ms)
        for one in runs
        if not one.run.is_pair
    }
    rows += [(*key, str(value[0]), f"{value[1]:g}") for key, value in sorted(seen.items())]
    return "Front ends, fitted on the other models", rows


def preset_table(runs: Sequence[Scored]) -> Table:
    """TTFT at the client with the package's presets, which were fitted on runs of this file."""
    rows = [("runs", "n", "without", "with the preset of the backend")]
    single = [one for one in runs if not one.run.is_pair]
    for name, members in groups(single):
        without = Errors.of(one.outcome.ttft_error for one in members)
        shipped = Errors.of(preset(one.run.backend).error(one.outcome) for one in members)
        if name in _PRESET_GROUPS:
            rows.append((name, str(len(members)), str(without), str(shipped)))
    return "TTFT with the presets of `frontend`", rows


def calibration_table(runs: Sequence[Scored]) -> Table:
    """Calibrated on one or two rows of a curve, errors on rows that were not used."""
    rows = [("method", "runs", "n", "TTFT", "TPOT")]
    for name, members in (("all", runs), ("clean", [one for one in runs if one.is_clean])):
        for method, errors in scored_methods(curves(one.outcome for one in members)):
            ttft, tpot = Errors.of(errors.ttft), Errors.of(errors.tpot)
            if ttft is not None:
                count = f"{ttft.count} (+{errors.refused} refused)" if errors.refused else str(ttft.count)
                rows.append((method, name, count, str(ttft), str(tpot)))
    return "Calibrated on rows of the same curve", rows


def run_table(outcomes: Sequence[Outcome], runs: Iterable[Scored]) -> Table:
    """One line per run: what was measured, its outcome, and both errors or the reason."""
    known = {one.run.id: one for one in runs}
    titles = ("run", "c", "measured TTFT", "TPOT", "outcome", "TTFT", "at the client", "TPOT", "confidence")
    return "Runs", [titles, *(_run_cells(outcome, known.get(outcome.run.id)) for outcome in outcomes)]


def reason_table(outcomes: Iterable[Outcome], runs: Iterable[Scored]) -> Table:
    """Why runs have no error, or one that is not clean; equal reasons once."""
    reasons: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        if outcome.reason:
            reasons[(outcome.kind, outcome.reason)] += 1
    for one in runs:
        for doubt in one.judged.doubts:
            reasons[("not clean", doubt)] += 1
    rows = [("runs", "what", "reason"), *((str(count), *key) for key, count in reasons.items())]
    return "Reasons", rows


def all_tables(found: Sequence[Judged]) -> list[Table]:
    """Make all tables of a validation."""
    outcomes = [one.outcome for one in found]
    priced = scored(found)
    return [
        outcome_table(outcomes),
        group_table(priced),
        front_end_table(priced),
        preset_table(priced),
        calibration_table(priced),
        published_table(),
        reason_table(outcomes, priced),
        run_table(outcomes, priced),
    ]


def published_table() -> Table:
    """What others say of themselves, or we measured of them."""
    return "Beside other simulators", [("simulator", "errors", "source"), *LINES]


def _run_cells(outcome: Outcome, one: Scored | None) -> tuple[str, ...]:
    run = outcome.run
    shape = " + ".join(map(str, run.pools))
    engine = f"{run.model} {run.precision or 'as published'} {run.system} {run.backend}"
    name = f"{engine} {shape} {run.isl}/{run.osl}"
    head = (name, str(run.concurrency), f"{run.ttft_ms:,.1f}", f"{run.tpot_ms:,.2f}", outcome.kind)
    if one is None:
        return (*head, "", "", "", "")
    client = one.front_end.error(outcome)
    errors = (f"{outcome.ttft_error:+.1%}", f"{client:+.1%}", f"{outcome.tpot_error:+.1%}")
    return (*head, *errors, one.judged.grade)


def aligned(tables: Iterable[Table]) -> Iterator[str]:
    """Lay tables out for a terminal."""
    for title, rows in tables:
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        yield title
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            yield "  " + "  ".join(cells).rstrip()
        yield ""


def markdown(tables: Iterable[Table]) -> Iterator[str]:
    """Lay tables out for a page."""
    for title, rows in tables:
        yield f"## {title}"
        yield ""
        for number, row in enumerate(rows):
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
            if number == 0:
                yield "|" + "---|" * len(row)
        yield ""
