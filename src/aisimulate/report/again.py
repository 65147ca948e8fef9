"""A recorded candidate replayed alone: the same payload gives the same figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aisimulate.replay.execute import execute
from aisimulate.report.columns import aligned
from aisimulate.report.numbers import number_text, share_text
from aisimulate.spica.candidate_payload import candidate_evaluator, candidate_payload, plan_and_load
from aisimulate.spica.reported import was_short
from aisimulate.spica.score import objective_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.config import Candidate, OptimizationGoal, SmartSearchConfig

_SHOWN_DIFFERENCES = 3
# A worker's and rank's number is added to the seed of drafts, so seeds lie apart.
_FIRST_DRAFT_SEED = 1_000_000


@dataclass(frozen=True, slots=True)
class Again:
    """A candidate, by the number of its attempt, and what its second replay measured."""

    number: int
    candidate: Candidate
    metrics: dict[str, float]

    @property
    def differences(self) -> list[str]:
        """The figures of the record that are not exactly those of now; what it lacks contradicts nothing."""
        recorded = self.candidate.metrics
        return sorted(name for name in recorded if recorded[name] != self.metrics.get(name))


def replay_again(asked: SmartSearchConfig, number: int, candidate: Candidate) -> Again:
    """Replay a candidate as its search did: as a whole, or that part of it.

    Raises AISimulateError or ValueError for what cannot be replayed.
    """
    plan, load = plan_and_load(asked, candidate)
    evaluator = candidate_evaluator(asked)
    evaluate = evaluator.evaluate_short if was_short(candidate) else evaluator.evaluate
    return Again(number, candidate, evaluate(plan, concurrency_override=load))


def again_text(goal: OptimizationGoal, repeats: Sequence[Again]) -> str:
    """Say of each candidate what it measured now, and whether that is what the record says."""
    rows = [("candidate", *(target.value for target in goal.targets), "against the record")]
    for again in repeats:
        values = (number_text(objective_value(again.metrics, target)) for target in goal.targets)
        rows.append((str(again.number), *values, _verdict(again)))
    return "\n".join([*aligned(rows), ""])


@dataclass(frozen=True, slots=True)
class Spread:
    """What a candidate measures when what is drawn is drawn otherwise; `values` by objective, a list each.

    Empty where nothing is drawn.
    """

    number: int
    values: dict[str, list[float]]


def replay_with_seeds(asked: SmartSearchConfig, number: int, candidate: Candidate, seeds: int) -> Spread:
    """Replay a candidate as a whole with so many other seeds.

    Raises AISimulateError or ValueError for what cannot be replayed.
    """
    payloads = [_reseeded(candidate_payload(asked, candidate), seed) for seed in range(1, seeds + 1)]
    reports = [execute(payload) for payload in payloads if payload is not None]
    values = {
        target.value: [objective_value(report, target) for report in reports]
        for target in asked.goal.targets
        if reports
    }
    return Spread(number, values)


def spread_text(goal: OptimizationGoal, spreads: Sequence[Spread]) -> str:
    """Say between which values the objectives lie, and how far apart that is."""
    rows = [("candidate", *(f"{target.value} with other seeds" for target in goal.targets))]
    for spread in spreads:
        texts = (_range_text(spread.values.get(target.value, [])) for target in goal.targets)
        rows.append((str(spread.number), *texts))
    return "\n".join([*aligned(rows), ""])


def _range_text(values: Sequence[float]) -> str:
    if not values:
        return "nothing is drawn"
    low, high = min(values), max(values)
    middle = (low + high) / 2
    width = f" ({share_text((high - low) / abs(middle))} apart)" if middle else ""
    return f"{number_text(low)} to {number_text(high)}{width}"


def _reseeded(payload: dict[str, Any], seed: int) -> dict[str, Any] | None:
    """Draw otherwise what is drawn: placements with a temperature, accepted drafts; None without either."""
    spec, draws = payload["spec"], False
    router = spec.get("adapters", {}).get("placement", {}).get("config") or {}
    if router.get("router_temperature"):
        router["seed"], draws = seed, True
    engine = spec["engine"]
    for role in [engine] if "rank" in engine else engine.values():
        if role["rank"].get("aic_nextn"):
            role["rank"]["aic_mtp_seed"], draws = _FIRST_DRAFT_SEED * seed, True
    return payload if draws else None


def _verdict(again: Again) -> str:
    names = again.differences
    if not names:
        return f"the same, all {len(again.candidate.metrics)} figures"
    parts = [
        f"{name} was {again.candidate.metrics.get(name)}, is {again.metrics.get(name)}"
        for name in names[:_SHOWN_DIFFERENCES]
    ]
    return f"{len(names)} figures differ: {'; '.join(parts)}"
