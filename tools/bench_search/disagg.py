"""Pairs of a prefill and a decode pool: tokens per second and GPU against those per user.

Closed loop. Requests wait for the prefill pool (a single queue) and slow down when the KV cache is nearly
full; the screen knows neither, nor that each engine is a little slower or faster than its table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.spica.parallel_enum import DisaggParallelConfig
from aisimulate.spica.pool_gp.fronts import area
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

PREFILL_SEQS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DECODE_SEQS = (256, 512, 1024)
MOST_REQUESTS = 30_000
_HALVINGS = 34
_PRESSURE_FROM, _PRESSURE = 0.85, 2.0


@dataclass(frozen=True, slots=True)
class Points:
    """Deployments in columns: engines by row of the tables, prefill budgets by place, counts as they are."""

    prefill: Ints
    prefill_replicas: Ints
    decode: Ints
    decode_replicas: Ints
    budget: Ints
    prefill_seqs: Ints
    decode_seqs: Ints


class Disagg(TwoGoals[Points]):
    """The problem for one table of step times, up to 64 GPUs."""

    def __init__(self, name: str, tables: str, backends: Sequence[str], gpu_budget: int = 64) -> None:
        self.name = name
        self.tables = StepTables(tables)
        self.branch = _branch(self.tables, backends, gpu_budget)
        names = self.tables.names
        self._decode_bias = np.array([engine_bias("d", engine) for engine in names])
        self._prefill_bias = np.array([engine_bias("p", engine) for engine in names])

    def screen(self, selection: Mapping[str, Any], config: ParallelConfig) -> list[float] | None:
        """Estimate by the tables alone: the slower of decode and prefill."""
        assert isinstance(config, DisaggParallelConfig)
        tables, backend = self.tables, selection["backend"]
        prefill, decode = (
            tables.engines[backend, config.prefill.shape],
            tables.engines[backend, config.decode.shape],
        )
        ranks = config.decode.replicas * config.decode.shape.dp
        held = int(tables.kv_tokens[decode, 0]) * ranks // (tables.isl + tables.osl // 2)
        if held < 1:
            return None
        running = max(1, int(load_step(selection) / LOAD_STEPS * held))
        most = ranks * selection["decode_max_num_seqs"]
        gap_s = tables.decode_ms_of(decode, min(running, most) / ranks) / 1e3
        budget = selection["prefill_max_num_batched_tokens"]
        batch = min(selection["prefill_max_num_seqs"], budget // tables.isl)
        pass_s = float(tables.prefill_ms[prefill, batch.bit_length() - 1]) / 1e3
        prompts = config.prefill.replicas * config.prefill.shape.dp * batch
        rate = min(min(running, most) / (tables.osl * gap_s), prompts / pass_s)
        return [rate * tables.osl / config.total_gpus, 1.0 / gap_s]

    def held(self, points: Points) -> Floats:
        """Count the requests that the decode pool's KV caches hold."""
        tables = self.tables
        per_rank = tables.kv_tokens[points.decode, 0]
        tokens = per_rank * tables.ranks[points.decode] * points.decode_replicas
        return np.asarray(tokens // (tables.isl + tables.osl // 2), dtype=float)

    def gpus(self, points: Points) -> Ints:
        """Count the GPUs of both pools."""
        each = self.tables.gpus
        return np.asarray(
            each[points.prefill] * points.prefill_replicas + each[points.decode] * points.decode_replicas
        )

    def solve(self, points: Points, steps: Ints) -> tuple[Floats, NDArray[np.bool_]]:
        """Return both objectives at load ratios in thousandths, and which deployments can run."""
        held = self.held(points)
        inside = np.maximum(1.0, np.floor(steps / LOAD_STEPS * held))
        feasible = (held >= 1) & self.holds_prompts(points) & (inside <= MOST_REQUESTS)
        low, high = np.zeros(len(inside)), inside.copy()
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            rate, _ = self.decode(points, middle)
            too_many = middle + rate * self.prefill_stay_s(points, rate) > inside
            low, high = np.where(too_many, low, middle), np.where(too_many, middle, high)
        rate, gap_s = self.decode(points, low)
        return np.column_stack([rate * self.tables.osl / self.gpus(points), 1.0 / gap_s]), feasible

    def decode(self, points: Points, running: Floats) -> tuple[Floats, Floats]:
        """Return requests per second and seconds per token when `running` requests decode."""
        ranks = self.tables.ranks[points.decode] * points.decode_replicas
        batch = np.minimum(running / ranks, points.decode_seqs)
        gap_s = self.tables.decode_ms(points.decode, batch) * self._decode_bias[points.decode] / 1e3
        pressure = np.maximum(running / np.maximum(self.held(points), 1.0) - _PRESSURE_FROM, 0.0)
        gap_s = gap_s * (1.0 + _PRESSURE * pressure)
        served = np.minimum(running, ranks * points.decode_seqs)
        return served / (self.tables.osl * gap_s), gap_s

    def holds_prompts(self, points: Points) -> NDArray[np.bool_]:
        """Tell where a prefill rank's KV cache holds a whole batch of prompts."""
        room = self.tables.raw_kv_tokens[points.prefill, points.budget]
        return np.asarray(room >= self._prompts(points) * self.tables.isl)

    def keeps_up(self, points: Points, rate: Floats) -> NDArray[np.bool_]:
        """Tell where the prefill pool can serve a rate."""
        return np.asarray(rate < self._prefill_rate(points))

    def prefill_stay_s(self, points: Points, rate: Floats) -> Floats:
        """Return how long a prompt stays in the prefill pool, its queue included."""
        bias = self._prefill_bias[points.prefill]
        busy = np.minimum(rate / self._prefill_rate(points), 0.999999)
        queue_s = busy / (1.0 - busy) * self._pass_s(points) * bias / 2.0
        return np.asarray(self.tables.prefill_ms[points.prefill, 0] / 1e3 * bias + queue_s)

    def exhaustive(self) -> float:
        """Return the area under the true front."""
        from tools.bench_search.disagg_truth import true_front  # noqa: PLC0415 - it imports this module

        return area(true_front(self))

    def _prefill_rate(self, points: Points) -> Floats:
        """Return the prompts per second of a whole prefill pool."""
        prompts = points.prefill_replicas * self.tables.ranks[points.prefill] * self._prompts(points)
        return np.asarray(prompts / (self._pass_s(points) * self._prefill_bias[points.prefill]))

    def _pass_s(self, points: Points) -> Floats:
        """Return the seconds of a prefill pass by the table."""
        place = np.log2(self._prompts(points)).astype(int)
        return np.asarray(self.tables.prefill_ms[points.prefill, place] / 1e3)

    def _prompts(self, points: Points) -> Ints:
        """Count the prompts that one prefill pass takes."""
        room = np.array(self.tables.budgets)[points.budget] // self.tables.isl
        return np.minimum(points.prefill_seqs, room)

    def points(self, selection: Mapping[str, Any], config: ParallelConfig) -> Points:
        """Return one deployment in columns."""
        assert isinstance(config, DisaggParallelConfig)
        engines, backend = self.tables.engines, selection["backend"]
        columns = (
            engines[backend, config.prefill.shape],
            config.prefill.replicas,
            engines[backend, config.decode.shape],
            config.decode.replicas,
            self.tables.budgets.index(selection["prefill_max_num_batched_tokens"]),
            selection["prefill_max_num_seqs"],
            selection["decode_max_num_seqs"],
        )
        return Points(*(np.array([column]) for column in columns))


def _branch(tables: StepTables, backends: Sequence[str], gpu_budget: int) -> BranchSpace:
    """Pair every prefill pool with every decode pool of the same backend that fits beside it."""
    supported: dict[DisaggParallelConfig, frozenset[str]] = {}
    for backend in backends:
        pools = tables.pools(backend, gpu_budget)
        for prefill in pools:
            for decode in pools:
                if prefill.total_gpus + decode.total_gpus <= gpu_budget:
                    pair = DisaggParallelConfig(prefill, decode)
                    supported[pair] = supported.get(pair, frozenset()) | {backend}
    knobs: dict[str, list[Any]] = {
        "router_mode": ["round_robin"],
        "planner_scaling_policy": ["disabled"],
        "prefill_max_num_batched_tokens": list(tables.budgets),
        "prefill_max_num_seqs": list(PREFILL_SEQS),
        "decode_max_num_batched_tokens": [8192],
        "decode_max_num_seqs": list(DECODE_SEQS),
        "backend": list(backends),
    }
    return BranchSpace(
        "disagg", tuple(supported), supported, knobs, gpu_budget, {"kv_load_ratio": (0.0, 1.0)}
    )
