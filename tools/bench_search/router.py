"""Planner and router settings of aggregated pools under open traffic: one score with 3 % noise.

The score is the goodput per GPU that the fleet holds on average. Router weights act under `kv_router`
only, planner details only when the fleet scales.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from tools.bench_search.agg import SEQS, Points, agg_branch, agg_points, pools, token_gap_s
from tools.bench_search.hashed_noise import engine_bias, log_normal
from tools.bench_search.problem import Measured
from tools.bench_search.step_tables import StepTables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from aisimulate.spica.parallel_enum import ParallelConfig

    Floats = NDArray[np.float64]

_NOISE = 0.03
_MOST_GAP_S = 0.050
_KV_SHARE = 0.9
_PEAK = 2.0  # a fleet that does not scale must carry the peak, so many times the mean
# How many times the needed workers a policy holds, and what its shortage costs.
_POLICIES = {
    "disabled": (1e9, 1.0),
    "throughput_180_5": (2.2, 0.90),
    "throughput_600_5": (2.25, 0.88),
    "load_180_5": (1.12, 0.99),
    "load_180_10": (1.05, 1.0),
    "hybrid_180_5": (1.55, 0.95),
    "hybrid_600_5": (1.6, 0.94),
}
_SENSITIVITY = {"aggressive": 0.98, "default": 1.0, "conservative": 1.03}
_SAMPLING = {"small": 0.97, "default": 1.0, "large": 1.01, "fine": 1.04}
_ROUND_ROBIN = 0.80
_MOST_NEEDED = 40.0
_WEIGHTS = ("overlap_score_credit", "prefill_load_scale", "router_temperature")
_KNOBS: dict[str, list[Any]] = {
    "router_mode": ["kv_router", "round_robin"],
    "overlap_score_credit": [0.0, 0.5, 1.0],
    "prefill_load_scale": [0, 0.25, 0.5, 1, 2, 4, 8, 16, 32],
    "router_temperature": [0.0, 0.2, 0.5, 1.0],
    "planner_scaling_policy": list(_POLICIES),
    "planner_fpm_sampling": list(_SAMPLING),
    "planner_load_sensitivity": list(_SENSITIVITY),
}


class Router:
    """The problem for one table of step times, up to 32 GPUs, at a request rate."""

    objectives = None

    def __init__(
        self, name: str, tables: str, backends: Sequence[str], gpu_budget: int = 32, rate: float = 6.0
    ) -> None:
        self.name = name
        self.tables = StepTables(tables)
        self._rate = rate
        supported = pools(self.tables, backends, gpu_budget)
        self.branch = agg_branch(self.tables, supported, _KNOBS, gpu_budget, {})
        self._highest = self._highest_rates()

    def measure(self, selection: Mapping[str, Any], config: ParallelConfig) -> Measured | None:
        """Return the outcome of a configuration, with 3 % noise on what is observed."""
        true = self._true(agg_points(self.tables, selection, config), selection)
        if true is None:
            return None
        return Measured((true * log_normal(repr((selection, config)), _NOISE),), (true,))

    def screen(self, selection: Mapping[str, Any], config: ParallelConfig) -> list[float] | None:
        """Nothing estimates fleets that scale: the benchmark runs this problem without a screen."""
        raise NotImplementedError

    def score(self, found: Sequence[Measured]) -> float:
        """Return the true score of what looked best."""
        return max(found, key=lambda one: one.observed[0]).true[0] if found else 0.0

    def exhaustive(self) -> float:
        """Return the highest true score. A pool's fleet and its routing do not depend on each other."""
        best = 0.0
        for config, backends in self.branch.supported_backends.items():
            for backend, budget, seqs in product(backends, self.tables.budgets, SEQS):
                engine = {
                    "backend": backend,
                    "agg_max_num_batched_tokens": budget,
                    "agg_max_num_seqs": seqs,
                }
                points = agg_points(self.tables, engine, config)
                needed = self._needed(points)
                if not needed < _MOST_NEEDED:
                    continue
                fleets = product(_POLICIES, _SAMPLING, _SENSITIVITY)
                fleet = max(self._fleet(points, needed, *knobs) for knobs in fleets)
                best = max(best, fleet * self._best_routing(points))
        return best

    def _true(self, points: Points, selection: Mapping[str, Any]) -> float | None:
        needed = self._needed(points)
        if not needed < _MOST_NEEDED:
            return None
        policy, sampling, sensitivity = (
            selection[f"planner_{knob}"] for knob in ("scaling_policy", "fpm_sampling", "load_sensitivity")
        )
        fleet = self._fleet(points, needed, policy, sampling, sensitivity)
        if selection["router_mode"] == "round_robin":
            return fleet * _ROUND_ROBIN
        return fleet * self._kv_routing(points, *(selection[knob] for knob in _WEIGHTS))

    def _fleet(self, points: Points, needed: float, policy: str, sampling: str, sensitivity: str) -> float:
        """Return the goodput per GPU of a policy, were its routing perfect."""
        holds, keeps = _POLICIES[policy]
        scales = policy != "disabled"
        if scales:
            holds *= _SENSITIVITY[sensitivity]
        if policy.startswith("throughput"):
            holds *= _SAMPLING[sampling]
        workers = min(float(points.replicas[0]), max(1.0, needed * holds) + 0.5 * scales)
        short = workers / (needed * (1.0 if scales else _PEAK)) - 0.95
        served = keeps / (1.0 + math.exp(-7.0 * short))
        return self._rate * self.tables.osl * served / (workers * float(self.tables.gpus[points.engine[0]]))

    def _kv_routing(self, points: Points, credit: float, scale: float, temperature: float) -> float:
        """Return the share that a router keeps: each engine has its own best load scale."""
        best = 1.0 + 0.5 * math.log2(self.tables.gpus[points.engine[0]]) + 0.3 * int(points.budget[0])
        away = math.log2(scale + 0.125) - best
        return 1.0 - 0.22 * (1.0 - credit) ** 1.2 - 0.012 * away**2 - 0.10 * abs(temperature - 0.2)

    def _best_routing(self, points: Points) -> float:
        weights = product(*(_KNOBS[knob] for knob in _WEIGHTS))
        return max(_ROUND_ROBIN, *(self._kv_routing(points, *values) for values in weights))

    def _needed(self, points: Points) -> float:
        """Return how many workers carry the mean traffic."""
        return float(
            self._rate / self._highest[points.engine[0], points.budget[0], SEQS.index(points.seqs[0])]
        )

    def _highest_rates(self) -> Floats:
        """Requests per second of one worker whose token gap is 50 ms at most, by engine, budget and seqs."""
        tables = self.tables
        batch = np.linspace(1.0, 512.0, 300)
        highest = np.full((len(tables.names), len(tables.budgets), len(SEQS)), 1e-3)
        for engine, place in product(range(len(tables.names)), range(len(tables.budgets))):
            column = np.full(len(batch), engine)
            bias = engine_bias("a", tables.names[engine])
            gap_s = token_gap_s(tables, column, batch, np.full(len(batch), tables.budgets[place])) * bias
            held = tables.raw_kv_tokens[engine, place] / (tables.isl + tables.osl / 2) * _KV_SHARE
            for column_of, seqs in enumerate(SEQS):
                fine = (gap_s <= _MOST_GAP_S) & (batch <= min(seqs, held))
                if fine.any():
                    most = (batch / gap_s)[fine].max()
                    highest[engine, place, column_of] = tables.ranks[engine] * most / tables.osl
        return highest
