"""The screen of a branch: from a selection of knobs to estimated objectives."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import AISimulateError
from aisimulate.spica.config_goal import OptimizationTarget
from aisimulate.spica.kv_estimate import estimate_kv_tokens, shape_engine_key
from aisimulate.spica.parallel_enum import role_pools
from aisimulate.spica.planner import enables_scaling
from aisimulate.spica.screen.closed_loop import (
    ClosedLoop,
    Estimate,
    ScreenPool,
    screen_aggregated,
    screen_disaggregated,
)
from aisimulate.spica.screen.step_times import EngineStepTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aisimulate.spica.config import SmartSearchConfig
    from aisimulate.spica.parallel_enum import ParallelConfig, ParallelShape, ReplicaParallelConfig

# What an estimate says of each goal.
_VALUES: dict[OptimizationTarget, Callable[[Estimate], float]] = {
    OptimizationTarget.THROUGHPUT: lambda estimate: estimate.output_tok_s,
    OptimizationTarget.THROUGHPUT_PER_GPU: lambda estimate: estimate.output_tok_s / estimate.gpus,
    OptimizationTarget.THROUGHPUT_PER_USER: lambda estimate: estimate.tok_s_user,
    OptimizationTarget.E2E_LATENCY: lambda estimate: estimate.e2e_ms,
}


def no_screen_reason(config: SmartSearchConfig) -> str | None:
    """Say why candidates of a search cannot be screened; None when they can."""
    space, workload = config.search_space, config.workload
    unknown = [target.value for target in config.goal.targets if target not in _VALUES]
    if workload.is_trace_based or workload.request_rate is not None:
        return "only traffic with a fixed number of requests in flight can be screened"
    if unknown:
        return f"{' and '.join(unknown)} cannot be screened"
    if workload.turns_per_session > 1 or workload.shared_prefix_ratio > 0:
        return "sessions and shared prefixes cannot be screened"
    if any(enables_scaling(policy) for policy in space.planner_scaling_policy):
        return "fleets that scale cannot be screened"
    if space.timing_mode != "additive" or space.aic_nextn:
        return "only additive timing without drafts can be screened"
    return None


class BranchScreen:
    """Estimates candidates of a search that `no_screen_reason` finds none against."""

    def __init__(self, config: SmartSearchConfig, backend_versions: Mapping[str, str]) -> None:
        self._config = config
        self._engines: dict[str, dict[str, Any]] = {
            backend: {
                "model_name": config.search_space.model_name,
                "hardware_sku": config.search_space.hardware_sku,
                "backend": backend,
                "backend_version": version,
                "allow_model_download": config.search_space.allow_model_download,
            }
            for backend, version in backend_versions.items()
        }
        self._times = lru_cache(maxsize=None)(self._new_times)
        self._tokens = lru_cache(maxsize=None)(self._new_tokens)

    def objectives(self, selection: Mapping[str, Any], config: ParallelConfig) -> list[float] | None:
        """Estimate what a sampler is told: the signed score, or the raw values of a front, in order.

        None for a candidate that cannot run.
        """
        estimate, goal = self.estimate(selection, config), self._config.goal
        if estimate is None:
            return None
        values = [_VALUES[target](estimate) for target in goal.targets]
        return values if goal.is_pareto or goal.target.maximize else [-value for value in values]

    def estimate(self, selection: Mapping[str, Any], config: ParallelConfig) -> Estimate | None:
        """Estimate a candidate; None when its KV cache holds no request, or its steps cannot be timed."""
        try:
            pools = {role: self._pool(selection, role, pool) for role, pool in role_pools(config).items()}
            load = self._load(selection, pools)
            if load is None:
                return None
            if "agg" in pools:
                return screen_aggregated(pools["agg"], load)
            return screen_disaggregated(pools["prefill"], pools["decode"], load)
        except AISimulateError:
            return None

    def _pool(self, selection: Mapping[str, Any], role: str, pool: ReplicaParallelConfig) -> ScreenPool:
        backend, shape = selection["backend"], pool.shape
        budget = selection[f"{role}_max_num_batched_tokens"]
        tokens = self._tokens(backend, shape, role, budget)
        block = getattr(self._config.search_space, f"{role}_block_size")
        return ScreenPool(
            times=self._times(backend, shape),
            backend=backend,
            replicas=pool.replicas,
            ranks=shape.dp,
            gpus=pool.total_gpus,
            max_batched_tokens=budget,
            max_seqs=selection[f"{role}_max_num_seqs"],
            kv_tokens=tokens // block * block,
        )

    def _load(self, selection: Mapping[str, Any], pools: Mapping[str, ScreenPool]) -> ClosedLoop | None:
        workload = self._config.workload
        assert (
            workload.isl is not None and workload.osl is not None and workload.num_request_ratio is not None
        )
        if any(pool.kv_tokens < workload.isl for pool in pools.values()):
            return None
        concurrency = workload.concurrency
        if concurrency is None:
            last = list(pools.values())[-1]
            held = last.kv_tokens * last.total_ranks // (workload.isl + workload.osl // 2)
            if held < 1:
                return None
            concurrency = max(1, int(selection["kv_load_ratio"] * held))
        return ClosedLoop(workload.isl, workload.osl, concurrency, workload.num_request_ratio)

    def _new_times(self, backend: str, shape: ParallelShape) -> EngineStepTimes:
        return EngineStepTimes(shape_engine_key(shape, **self._engines[backend]))

    def _new_tokens(self, backend: str, shape: ParallelShape, role: str, max_num_tokens: int) -> int:
        fraction = getattr(self._config.search_space, f"{role}_gpu_memory_utilization")
        tokens = estimate_kv_tokens(
            shape, **self._engines[backend], max_num_tokens=max_num_tokens, memory_fraction=fraction
        )
        return tokens or 0
