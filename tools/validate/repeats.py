"""Runs that say the same thing twice, or something else than they claim."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from aisimulate.core.errors import AISimulateError
from aisimulate.timing.aic.names import model_facts
from tools.validate.deployments import bundled_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tools.validate.runs import MeasuredRun

DUPLICATE, CONTAMINATED = "duplicate", "contaminated"

TWIN_RATIO = 1.25
"""Two engines of one deployment whose TPOT differs by more than this did not do the same work."""

DISTURBED_RATIO = 1.25
"""A run whose TPOT is above this times that of the same engine under more load was not alone."""

_DISTURBED_CURVE = 2  # that many such runs discredit all runs of their curve

_SAME = 1e-3  # files round to three or four digits


def set_aside(runs: Sequence[MeasuredRun], known: Iterable[MeasuredRun] = ()) -> dict[str, str]:
    """Give a reason for each run (by id) that must not be scored; `known` are runs to compare with, too.

    A duplicate repeats an earlier run of `runs`, possibly under another name of the model. A fast twin has a
    run at the same deployment and concurrency that is slower by more than `TWIN_RATIO`, and its model has
    draft layers of its own: speculative decoding that the file does not state explains that best
    (spec 07 section 2).
    """
    reasons: dict[str, str] = {}
    places: dict[object, list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        place = places[(run.deployment, run.concurrency)]
        same = next((other for other in place if _is_same(run, other)), None)
        if same is not None:
            reasons[run.id] = f"{DUPLICATE} of {same.id}"
        place.append(run)
    for run in known:
        place = places[(run.deployment, run.concurrency)]
        if not any(_is_same(run, other) for other in place):
            place.append(run)
    for run in runs:
        slowest = max(places[(run.deployment, run.concurrency)], key=lambda other: other.tpot_ms)
        ratio = slowest.tpot_ms / run.tpot_ms
        if run.id not in reasons and ratio > TWIN_RATIO and _has_draft_layers(run):
            text = f"{ratio:.2f} times faster than {slowest.id}: speculative decoding is likely"
            reasons[run.id] = f"{CONTAMINATED}: {text}"
    return reasons


def _is_same(run: MeasuredRun, other: MeasuredRun) -> bool:
    return _close(run.ttft_ms, other.ttft_ms) and _close(run.tpot_ms, other.tpot_ms)


def _close(value: float, other: float) -> bool:
    return abs(value - other) <= _SAME * max(value, other)


def _has_draft_layers(run: MeasuredRun) -> bool:
    try:
        return model_facts(bundled_name(run.model)).nextn > 0
    except AISimulateError:
        return False


def disturbed(runs: Iterable[MeasuredRun], known: Iterable[MeasuredRun] = ()) -> dict[str, str]:
    """Give a reason for each run (by id) that its own curve contradicts; `known` are runs to compare with.

    More load cannot make an engine faster. Looks at measurements only.
    """
    curves: dict[object, dict[int, MeasuredRun]] = defaultdict(dict)
    asked = list(runs)
    for run in (*asked, *known):
        curves[run.curve].setdefault(run.concurrency, run)
    reasons: dict[object, dict[int, str]] = {}
    for curve, rows in curves.items():
        found = dict(_contradicted(rows))
        if len(found) >= _DISTURBED_CURVE:
            text = f"measured TPOT contradicts itself along the curve, at concurrency {_listed(found)}"
            found = dict.fromkeys(rows, text)
        reasons[curve] = found
    return {
        run.id: reasons[run.curve][run.concurrency] for run in asked if run.concurrency in reasons[run.curve]
    }


def _contradicted(rows: Mapping[int, MeasuredRun]) -> Iterator[tuple[int, str]]:
    for concurrency, run in sorted(rows.items()):
        for other in rows.values():
            if other.concurrency > concurrency and run.tpot_ms > DISTURBED_RATIO * other.tpot_ms:
                measured = f"{run.tpot_ms:.1f} ms, but {other.tpot_ms:.1f} ms at {other.concurrency}"
                yield concurrency, f"measured TPOT at concurrency {concurrency} is {measured}"
                break


def _listed(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))
