"""The recorded ticks of the reference, and our planner with the same settings."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisimulate.forecast import TrafficForecaster
from aisimulate.planner.model import EngineModel
from aisimulate.planner.policy import PlannerPolicy
from aisimulate.planner.reference import ReferencePlanner
from aisimulate.planner.settings import EngineLimits, PlannerSettings, Thresholds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.core.forward_pass import ForwardPass

DATA = Path(__file__).parents[1] / "data/planner"


class LinearPasses:
    """Knows how long a pass takes, once it has seen some."""

    def __init__(self, after: int = 0) -> None:
        self._after = after
        self._seen = 0

    @property
    def ready(self) -> bool:
        return self._seen >= self._after

    def tune(self, ranks: Sequence[ForwardPass]) -> None:
        self._seen += 1

    def estimate_ms(self, ranks: Sequence[ForwardPass]) -> float | None:
        if not self.ready:
            return None
        item = ranks[0]
        prompts, tokens = item.sum_prefill_tokens, item.sum_decode_kv_tokens
        return 5.0 + 0.02 * prompts + 0.05 * item.num_decode_requests + 0.00002 * tokens


def recorded_cases() -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(gzip.decompress((DATA / "reference_ticks.json.gz").read_bytes()))
    return cases


def settings_of(config: dict[str, Any]) -> PlannerSettings:
    pools = ("agg",) if config["mode"] == "agg" else ("prefill", "decode")
    is_sla = config["optimization_target"] == "sla"
    floors = [config.get(f"{pool}_min_endpoint") or config.get("min_endpoint", 1) for pool in pools]
    return PlannerSettings(
        pools=pools,
        target=config["optimization_target"],
        scales_by_throughput=is_sla and config["enable_throughput_scaling"],
        scales_by_load=not is_sla or config["enable_load_scaling"],
        throughput_interval_s=config["throughput_adjustment_interval_seconds"],
        load_interval_s=config["load_adjustment_interval_seconds"],
        most_replicas_per_step=config["max_throughput_scaling_replicas"],
        max_gpus=config["max_gpu_budget"],
        min_gpus=config["min_gpu_budget"],
        min_replicas=tuple(floors),
        ttft_ms=config["ttft_ms"],
        itl_ms=config["itl_ms"],
        samples=config["max_num_fpm_samples"],
        sensitivity=config["load_scaling_down_sensitivity"] / 100,
        thresholds=Thresholds(
            config.get("prefill_scale_up_queue_tokens"),
            config.get("prefill_scale_down_queue_tokens"),
            config.get("decode_scale_up_kv_rate"),
            config.get("decode_scale_down_kv_rate"),
        ),
    )


def limits_of(recorded: dict[str, Any]) -> EngineLimits:
    return EngineLimits(
        recorded["num_gpu"],
        recorded["max_num_batched_tokens"],
        recorded["max_num_seqs"],
        recorded["max_kv_tokens"],
        recorded["context_length"],
        recorded["speculative_nextn"] or 0,
    )


def policy_of(case: dict[str, Any]) -> PlannerPolicy:
    settings = settings_of(case["config"])
    limits = {pool: limits_of(case["limits"]["decode" if pool == "agg" else pool]) for pool in settings.pools}
    models = {
        pool: EngineModel(pool, LinearPasses(case["min_obs"]), limits[pool], settings.samples)
        for pool in settings.pools
        if not settings.is_easy
    }
    forecast = TrafficForecaster("constant_last", interval_s=180.0) if settings.scales_by_throughput else None
    return PlannerPolicy(ReferencePlanner(settings, limits, models, forecast), settings.pools)
