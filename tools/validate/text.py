"""The result in lines: the same are printed and written into the documentation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tools.validate.errors import Errors
from tools.validate.front_end import fitted, preset, teachers
from tools.validate.groups import groups
from tools.validate.leave_out import curves, scored_methods
from tools.validate.outcomes import KINDS
from tools.validate.published import LINES
from tools.validate.scored import scored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tools.validate.front_end import FrontEnd
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
    """Errors by group, uncalibrated: TTFT and TPOT, of the tables alone and at the client."""
    rows = [("runs", "n", "TTFT", "TTFT at the client", "TPOT", "TPOT at the client")]
    for name, members in groups(runs):
        engine = Errors.of(one.outcome.ttft_error for one in members)
        client = Errors.of(one.front_end.error(one.outcome) for one in members)
        tpot = Errors.of(one.outcome.tpot_error for one in members)
        seen = Errors.of(one.front_end.tpot_error(one.outcome) for one in members)
        rows.append((name, str(len(members)), str(engine), str(client), str(tpot), str(seen)))
    return "Uncalibrated", rows


def front_end_table(runs: Sequence[Scored]) -> Table:
    """The front end used for each backend and model."""
    rows = [("backend", "scored model", "stream interval, tokens", "offset, ms", "more per pass, ms")]
    single = [one for one in runs if not one.run.is_pair and not one.run.is_of_laboratory]
    seen = {(one.run.backend, one.run.family): one.front_end for one in single}
    clean = [one.outcome for one in single if one.is_clean]
    for backend in sorted({one.run.backend for one in single}):
        seen[(backend, "none: fitted on all")] = fitted(teachers(clean, backend))
    rows += [(*key, *_numbers(end)) for key, end in sorted(seen.items())]
    return "Front ends, fitted on the other models", rows


def _numbers(end: FrontEnd) -> tuple[str, str, str]:
    return str(end.stream_interval), f"{end.ttft_offset_ms:g}", f"{end.step_overhead_ms:g}"


def preset_table(runs: Sequence[Scored]) -> Table:
    """Errors at the client with the package's presets, which were fitted on these runs."""
    rows = [("runs", "n", "TTFT without", "with the preset", "TPOT without", "with the preset")]
    single = [one for one in runs if not one.run.is_pair and not one.run.is_of_laboratory]
    for name, members in groups(single):
        pairs = [(preset(one.run.backend), one.outcome) for one in members]
        errors = (
            Errors.of(outcome.ttft_error for _, outcome in pairs),
            Errors.of(end.error(outcome) for end, outcome in pairs),
            Errors.of(outcome.tpot_error for _, outcome in pairs),
            Errors.of(end.tpot_error(outcome) for end, outcome in pairs),
        )
        if name in _PRESET_GROUPS:
            rows.append((name, str(len(members)), *map(str, errors)))
    return "With the presets of `frontend`: runs of InferenceX", rows


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
    simulated = ("TTFT", "at the client", "TPOT", "at the client")
    titles = ("run", "c", "measured TTFT", "TPOT", "outcome", *simulated, "confidence")
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
        return (*head, "", "", "", "", "")
    end = one.front_end
    errors = (outcome.ttft_error, end.error(outcome), outcome.tpot_error, end.tpot_error(outcome))
    return (*head, *(f"{error:+.1%}" for error in errors), one.judged.grade)


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
