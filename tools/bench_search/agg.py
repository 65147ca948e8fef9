"""Pools of workers that do both phases: tokens per second and GPU against those per user, closed loop."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.spica.parallel_enum import ReplicaParallelConfig
from aisimulate.spica.pool_gp.fronts import area, front_of_two
from aisimulate.spica.search_space import BranchSpace
from tools.bench_search.hashed_noise import engine_bias
from tools.bench_search.problem import LOAD_STEPS, load_step
from tools.bench_search.step_tables import StepTables
from tools.bench_search.two_goals import TwoGoals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from aisimulate.spica.parallel_enum import ParallelConfig

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

SEQS = (256, 512, 1024)
_MOST_REQUESTS = 40_000
_PRESSURE_FROM, _PRESSURE = 0.85, 2.0
_SPREAD_COST = 0.04  # what each doubling of the replicas costs
_CHUNK_TOKENS = (256, 32_768)


@dataclass(frozen=True, slots=True)
class Points:
    """Deployments in columns: engines by row of the tables, budgets by place, counts as they are."""

    engine: Ints
    replicas: Ints
    budget: Ints
    seqs: Ints


class Agg(TwoGoals[Points]):
    """The problem for one table of step times, up to 64 GPUs."""

    def __init__(self, name: str, tables: str, backends: Sequence[str], gpu_budget: int = 64) -> None:
        self.name = name
        self.tables = StepTables(tables)
        supported = pools(self.tables, backends, gpu_budget)
        knobs = {"router_mode": ["round_robin"], "planner_scaling_policy": ["disabled"]}
        self.branch = agg_branch(self.tables, supported, knobs, gpu_budget, {"kv_load_ratio": (0.0, 1.0)})
        self._bias = np.array([engine_bias("a", engine) for engine in self.tables.names])

    def points(self, selection: Mapping[str, Any], config: ParallelConfig) -> Points:
        """Return one deployment in columns."""
        return agg_points(self.tables, selection, config)

    def screen(self, selection: Mapping[str, Any], config: ParallelConfig) -> list[float] | None:
        """Estimate by the tables alone: no KV pressure, no cost of spreading, no bias of the engine."""
        points = self.points(selection, config)
        values, _ = self._values(points, np.array([load_step(selection)]), np.ones(1), exact=False)
        return [float(value) for value in values[0]]

    def solve(self, points: Points, steps: Ints) -> tuple[Floats, NDArray[np.bool_]]:
        """Return both objectives at load ratios in thousandths, and which deployments can run."""
        return self._values(points, steps, self._bias[points.engine], exact=True)

    def exhaustive(self) -> float:
        """Return the area under the true front: every deployment at every load."""
        tables = self.tables
        members = [
            (engine, replicas, budget, seqs)
            for engine, gpus in enumerate(tables.gpus)
            for replicas in range(1, (self.branch.gpu_budget or 0) // int(gpus) + 1)
            for budget, seqs in product(range(len(tables.budgets)), SEQS)
        ]
        steps = np.arange(LOAD_STEPS + 1)
        best = np.empty((0, 2))
        for member in members:
            points = Points(*(np.full(len(steps), value) for value in member))
            values, feasible = self.solve(points, steps)
            best = np.concatenate([best, values[feasible]])
            if len(best) > 100_000:
                best = best[front_of_two(best)]
        return area(best)

    def _values(
        self, points: Points, steps: Ints, bias: Floats, *, exact: bool
    ) -> tuple[Floats, NDArray[np.bool_]]:
        tables = self.tables
        ranks = tables.ranks[points.engine] * points.replicas
        tokens = tables.kv_tokens[points.engine, points.budget] * ranks
        held = tokens // (tables.isl + tables.osl // 2)
        inside = np.maximum(1.0, np.floor(steps / LOAD_STEPS * held))
        feasible = (held >= 1) & (inside <= _MOST_REQUESTS)
        batch = np.minimum(inside / ranks, points.seqs)
        budget = np.array(tables.budgets)[points.budget]
        gap_s = token_gap_s(tables, points.engine, np.maximum(batch, 1.0), budget) * bias
        if exact:
            pressure = np.maximum(inside / np.maximum(held, 1) - _PRESSURE_FROM, 0.0)
            gap_s = gap_s * (1.0 + _PRESSURE * pressure) * (1.0 + _SPREAD_COST * np.log2(points.replicas))
        served = np.minimum(inside, ranks * points.seqs)
        per_gpu = served / gap_s / (tables.gpus[points.engine] * points.replicas)
        return np.column_stack([per_gpu, 1.0 / gap_s]), feasible


def token_gap_s(tables: StepTables, engines: Ints, batch: Floats, budget: Ints) -> Floats:
    """Return the mean seconds between a user's tokens: decode steps, a share of them with a prompt chunk."""
    inflow = batch * tables.isl / tables.osl  # prompt tokens that arrive per token of everybody
    chunk = np.minimum(budget - batch, tables.isl * np.maximum(1.0, inflow / _CHUNK_TOKENS[0]))
    chunk = np.clip(chunk, *_CHUNK_TOKENS)
    mixed = np.minimum(1.0, inflow / chunk)
    decode_ms, mixed_ms = tables.decode_ms(engines, batch), tables.mixed_ms(engines, batch, chunk)
    return np.asarray((decode_ms * (1.0 - mixed) + mixed_ms * mixed) / 1e3)


def pools(
    tables: StepTables, backends: Sequence[str], gpu_budget: int
) -> dict[ReplicaParallelConfig, frozenset[str]]:
    """List the pools that fit the budget, each with the backends that can run it."""
    supported: dict[ReplicaParallelConfig, frozenset[str]] = {}
    for backend in backends:
        for pool in tables.pools(backend, gpu_budget):
            supported[pool] = supported.get(pool, frozenset()) | {backend}
    return supported


def agg_branch(
    tables: StepTables,
    supported: Mapping[ReplicaParallelConfig, frozenset[str]],
    knobs: Mapping[str, list[Any]],
    gpu_budget: int,
    ranges: Mapping[str, tuple[float, float]],
) -> BranchSpace:
    """Build the branch of pools, their engine knobs, and `knobs`."""
    backends = sorted(set().union(*supported.values()), key=["vllm", "sglang", "trtllm"].index)
    engine = {"agg_max_num_batched_tokens": list(tables.budgets), "agg_max_num_seqs": list(SEQS)}
    choices = {**knobs, **engine, "backend": backends}
    return BranchSpace("agg", tuple(supported), supported, choices, gpu_budget, ranges)


def agg_points(tables: StepTables, selection: Mapping[str, Any], config: ParallelConfig) -> Points:
    """Return one deployment in columns."""
    assert isinstance(config, ReplicaParallelConfig)
    columns = (
        tables.engines[selection["backend"], config.shape],
        config.replicas,
        tables.budgets.index(selection["agg_max_num_batched_tokens"]),
        selection["agg_max_num_seqs"],
    )
    return Points(*(np.array([column]) for column in columns))
