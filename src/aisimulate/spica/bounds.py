"""Hard bounds of a goal: which a measured candidate misses, and by how much."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.spica.score import GOODPUT_RPS_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aisimulate.spica.config import OptimizationGoal
    from aisimulate.spica.outcome import Outcome

# Bound of the SLA: how to call it, the mean it is compared with, and how many samples the mean is of.
_MEANS = {
    "ttft_ms": ("TTFT", "mean_ttft_ms", "num_ttft_samples"),
    "itl_ms": ("ITL", "mean_itl_ms", "num_itl_samples"),
    "e2e_ms": ("e2e", "mean_e2e_latency_ms", "num_e2e_latency_samples"),
}


@dataclass(frozen=True, slots=True)
class Miss:
    """A bound that is missed. `share` is how far off, as a share of the bound; infinite without a sample."""

    bound: str
    share: float
    text: str


def missed_bounds(goal: OptimizationGoal, metrics: Mapping[str, float]) -> list[Miss]:
    """List the hard bounds that a candidate misses: means of a strict SLA, and the rate to size for."""
    misses = []
    if goal.strict_sla and goal.sla is not None:
        misses += [_mean_miss(name, bound, metrics) for name, bound in goal.sla.bounds.items()]
    if goal.min_goodput_rps is not None:
        misses.append(_rate_miss(goal.min_goodput_rps, metrics.get(GOODPUT_RPS_KEY, 0.0)))
    return [miss for miss in misses if miss is not None]


def near_misses(outcomes: Iterable[Outcome], count: int) -> list[Outcome]:
    """Return the candidates whose worst miss is smallest, nearest first; equal ones in their order.

    Of those that miss by exactly the same, settings apart that never acted, the first stands for all.
    """
    distinct: dict[tuple[object, ...], Outcome] = {}
    for outcome in outcomes:
        if outcome.missed:
            distinct.setdefault((*sorted(outcome.missed.items()), outcome.used_gpus), outcome)
    return sorted(distinct.values(), key=lambda outcome: max(outcome.missed.values()))[:count]


def _mean_miss(name: str, bound: float, metrics: Mapping[str, float]) -> Miss | None:
    label, key, samples = _MEANS[name]
    mean = metrics.get(key)
    if mean is None or metrics.get(samples, 1) == 0:
        return Miss(name, math.inf, f"there is no {label} to hold against {bound:g} ms")
    if mean <= bound:
        return None
    share = mean / bound - 1
    return Miss(name, share, f"mean {label} {mean:,.1f} ms > {bound:g} ms ({share:+.1%})")


def _rate_miss(wanted_rps: float, found_rps: float) -> Miss | None:
    if found_rps >= wanted_rps:
        return None
    share = 1 - found_rps / wanted_rps
    return Miss(
        "min_goodput_rps", share, f"goodput {found_rps:.3g} requests/s < {wanted_rps:g} ({-share:+.1%})"
    )
