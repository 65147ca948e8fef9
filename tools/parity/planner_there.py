"""The reference's planner on random fleets: run in its interpreter, it writes what it saw and decided.

    PEER tools/parity/planner_there.py COUNT SEED FILE

PEER has ai-dynamo 1.6.1 (`pip install --no-deps ai-dynamo==1.6.1`, with pydantic, pyyaml, numpy and msgspec).
Its other dependencies are not needed for decisions, so modules that it fails to import are replaced by empty
ones, and its pass times by a formula that our side knows too.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import types
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

_MOST_MISSING = 80


class _Empty(types.ModuleType):
    """Has everything; nothing of it does anything."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *args, **options: None})


class _PassTimes:
    """5 ms + 0.02 ms per prompt token + 0.05 ms per decode + 0.00002 ms per token of context.

    Known only after `after` observed passes.
    """

    after = 0

    def __init__(self) -> None:
        self._seen = 0

    @classmethod
    def best_available(cls, config: object) -> _PassTimes:
        return cls()

    def tune_with_fpms(self, passes: list[Any]) -> None:
        self._seen += len(passes)

    def diagnostics(self) -> dict[str, str]:
        return {"readiness": "ready" if self._seen >= self.after else "insufficient"}

    def estimate_forward_pass_time_ms(self, ranks: list[dict[str, Any]]) -> float | None:
        if self._seen < self.after:
            return None
        work = ranks[0]["scheduled_requests"]
        prompts, context = work["sum_prefill_tokens"], work["sum_decode_kv_tokens"]
        return 5.0 + 0.02 * prompts + 0.05 * work["num_decode_requests"] + 0.00002 * context


@dataclass
class _PassTimesConfig:
    model: str = ""
    system: str = ""
    backend: str = ""
    worker_type: str = ""
    estimation_mode: str = ""
    tp: int = 1
    pp: int = 1
    attention_dp: int = 1
    estimator_config: dict[str, object] = field(default_factory=dict)

    @classmethod
    def from_legacy_engine_config(cls, *arguments: object) -> _PassTimesConfig:
        return cls()


def load_planner() -> types.ModuleType:
    """Import the reference's planner with as little as possible around it."""
    logging.disable(logging.CRITICAL)
    sdk = types.ModuleType("aisimulate_core.sdk")
    sdk.RustForwardPassPerfModel = _PassTimes  # type: ignore[attr-defined]
    sdk.ForwardPassPerfModelConfig = _PassTimesConfig  # type: ignore[attr-defined]
    sys.modules |= {"aisimulate_core": _Empty("aisimulate_core"), "aisimulate_core.sdk": sdk}
    for name in ("dynamo.prometheus_names", "dynamo.runtime", "dynamo.runtime.logging", "pandas", "pmdarima"):
        sys.modules[name] = _Empty(name)
    for name in ("filterpy", "filterpy.kalman", "prophet"):
        sys.modules[name] = _Empty(name)
    for _ in range(_MOST_MISSING):
        try:
            return importlib.import_module("dynamo.planner.offline.replay_adapter")
        except ImportError as error:
            if error.name is None:
                raise
            parts = error.name.split(".")
            for end in range(1, len(parts) + 1):
                sys.modules.setdefault(".".join(parts[:end]), _Empty(".".join(parts[:end])))
            for name in [name for name in sys.modules if name.startswith("dynamo.planner")]:
                del sys.modules[name]
    raise ImportError("the reference's planner needs more than can be replaced")


def draw_config(rng: Random) -> dict[str, Any]:
    """Draw settings of the planner."""
    config: dict[str, Any] = {
        "mode": rng.choice(["agg", "disagg"]),
        "optimization_target": rng.choice(["throughput", "latency", "load", "sla", "sla", "sla"]),
        "environment": "virtual",
        "report_interval_hours": None,
        "live_dashboard_port": 0,
        "load_predictor": "constant",
        "max_gpu_budget": rng.choice([8, 8, 12, 16, 32, -1, 5]),
        "min_gpu_budget": rng.choice([-1, -1, -1, 2, 4, 5]),
        "load_adjustment_interval_seconds": rng.choice([5, 10]),
        "throughput_adjustment_interval_seconds": rng.choice([20, 30, 60]),
        "ttft_ms": rng.choice([200.0, 500.0, 1000.0]),
        "itl_ms": rng.choice([10.0, 20.0, 30.0]),
        "load_scaling_down_sensitivity": rng.choice([70, 80, 90]),
        "max_num_fpm_samples": rng.choice([8, 64]),
        "max_throughput_scaling_replicas": rng.choice([1, 3, 8]),
    }
    if config["min_gpu_budget"] > config["max_gpu_budget"] >= 0:
        config["min_gpu_budget"] = -1
    return config | _target_settings(config["optimization_target"], rng) | _floors(config["mode"], rng)


def _target_settings(target: str, rng: Random) -> dict[str, Any]:
    if target == "sla":
        kinds = rng.choice(["t", "l", "tl"])
        return {"enable_throughput_scaling": "t" in kinds, "enable_load_scaling": "l" in kinds}
    if target != "load":
        return {}
    return {
        "prefill_scale_up_queue_tokens": rng.choice([2000, 8000]),
        "prefill_scale_down_queue_tokens": rng.choice([0, 500]),
        "decode_scale_up_kv_rate": rng.choice([60.0, 80.0]),
        "decode_scale_down_kv_rate": rng.choice([10.0, 30.0]),
    }


def _floors(mode: str, rng: Random) -> dict[str, int]:
    if mode == "disagg" and rng.random() < 0.3:
        return {"prefill_min_endpoint": rng.choice([1, 2]), "decode_min_endpoint": rng.choice([1, 2, 3])}
    return {"min_endpoint": rng.choice([1, 1, 1, 2, 0])}


def draw_limits(rng: Random, nextn: int) -> dict[str, Any]:
    """Draw what an engine can hold."""
    return {
        "num_gpu": rng.choice([1, 1, 2, 4]),
        "max_num_batched_tokens": rng.choice([2048, 8192]),
        "max_num_seqs": rng.choice([64, 256]),
        "context_length": rng.choice([None, 4096, 16384]),
        "max_kv_tokens": rng.choice([50_000, 400_000]),
        "speculative_nextn": nextn or None,
    }


class FakePool:
    """Workers that start and drain as they are told; `counts` is what a snapshot says of them."""

    def __init__(self, stage: str, active: int, startup_ms: float) -> None:
        self.stage = stage
        self.active = list(range(active))
        self._starting: dict[int, float] = {}
        self._draining: dict[int, float] = {}
        self._next_id = active
        self._startup_ms = startup_ms

    def move_to(self, now_ms: float) -> None:
        for worker, ready_ms in list(self._starting.items()):
            if ready_ms <= now_ms:
                del self._starting[worker]
                self.active.append(worker)
        self._draining = {worker: end_ms for worker, end_ms in self._draining.items() if end_ms > now_ms}

    def scale(self, target: int, now_ms: float, rng: Random) -> None:
        while len(self.active) + len(self._starting) < target:
            if self._startup_ms:
                self._starting[self._next_id] = now_ms + self._startup_ms
            else:
                self.active.append(self._next_id)
            self._next_id += 1
        while len(self.active) + len(self._starting) > target:
            if self._starting:
                del self._starting[max(self._starting)]
            else:
                worker = max(self.active)
                self.active.remove(worker)
                self._draining[worker] = now_ms + rng.choice([0, 4000, 9000])

    def counts(self) -> dict[str, Any]:
        groups = {"active": self.active, "starting": self._starting, "draining": self._draining}
        found: dict[str, Any] = {}
        for name, workers in groups.items():
            found |= {f"{name}_{self.stage}_count": len(workers), f"{name}_{self.stage}_ids": sorted(workers)}
        present = len(self.active) + len(self._starting)
        found[f"non_draining_{self.stage}_count"] = present
        return found | {f"total_{self.stage}_count": present + len(self._draining)}


def draw_pass(worker: int, stage: str, prefills: bool, load: float, rng: Random) -> dict[str, Any]:
    """Draw the latest forward pass of a worker."""
    decodes = 0 if stage == "prefill" else int(rng.random() * load * 12)
    prompts = rng.choice([0, 0, 1, 2]) if prefills else 0
    queued = int(rng.random() ** 2 * load * 3)
    queued_decodes = rng.choice([0, 0, 0, 3])
    return {
        "worker_id": worker,
        "dp_rank": 0,
        "wall_time": rng.uniform(0.001, 0.2),
        "num_prefill_requests": prompts,
        "sum_prefill_tokens": prompts * rng.randrange(1, 3000),
        "var_prefill_length": 0.0,
        "sum_prefill_kv_tokens": rng.choice([0, 100]) if prompts else 0,
        "num_decode_requests": decodes,
        "sum_decode_kv_tokens": int(decodes * rng.uniform(50, 6000)),
        "var_decode_kv_tokens": 0.0,
        "num_queued_prefill": queued,
        "sum_queued_prefill_tokens": queued * rng.choice([0, 10, 400, 3000]),
        "var_queued_prefill_length": 0.0,
        "num_queued_decode": queued_decodes,
        "sum_queued_decode_kv_tokens": queued_decodes * rng.randrange(1, 3000),
        "var_queued_decode_kv_tokens": 0.0,
    }


def draw_traffic(
    since_s: float, load: float, lengths: tuple[float, float], nextn: int, rng: Random
) -> dict[str, Any]:
    """Draw the traffic since the last tick."""
    arrived = int(load * rng.uniform(0, 40))
    ended = max(0, arrived - rng.choice([0, 0, 3]))
    hits, forwards = rng.choice([0, 0, arrived]), rng.choice([0, arrived * 3])
    accepted = rng.uniform(1, 3) if nextn else 1.0
    return {
        "duration_s": since_s,
        "num_req": arrived,
        "avg_isl": lengths[0] if ended else 0.0,
        "avg_osl": lengths[1] if ended else 0.0,
        "avg_ttft_ms": 5.0,
        "avg_itl_ms": 3.0,
        "shape_count": ended,
        "ttft_count": ended,
        "itl_count": ended,
        "avg_accept_length": accepted if forwards else None,
        "avg_kv_hit_rate": rng.uniform(0, 1) if hits else 0.0,
        "hit_rate_count": hits,
        "accept_length_forward_count": forwards,
    }


class Case:
    """A planner of the reference with a fleet that does what it says."""

    def __init__(self, planner: types.ModuleType, seed: int) -> None:
        types_ = importlib.import_module("dynamo.planner.core.types")
        config_type = importlib.import_module("dynamo.planner.config.planner_config").PlannerConfig
        self._rng = rng = Random(seed)
        config, self._nextn = draw_config(rng), rng.choice([0, 0, 0, 2])
        stages = ["decode"] if config["mode"] == "agg" else ["prefill", "decode"]
        limits = {stage: draw_limits(rng, self._nextn) for stage in stages}
        _PassTimes.after = rng.choice([0, 0, 6])
        capabilities = {stage: types_.EngineCapabilities(**limit) for stage, limit in limits.items()}
        self._adapter = planner.create_replay_planner_adapter(
            config_type.model_validate(config),
            types_.WorkerCapabilities(**capabilities),
            capture_details=True,
        )
        startup_ms = rng.choice([0, 0, 3000, 12_000])
        self._pools = [FakePool(stage, rng.choice([1, 2, 3, 4]), startup_ms) for stage in stages]
        self._is_agg = config["mode"] == "agg"
        self._load, self._lengths = rng.choice([0.1, 1, 4, 10]), self._draw_lengths()
        facts = {"case": seed, "config": config, "limits": limits, "min_obs": _PassTimes.after}
        self.record: dict[str, Any] = {**facts, "snapshots": [], "decisions": []}

    def run(self) -> dict[str, Any]:
        """Tick; return everything that was seen and decided."""
        now_ms = self.record["first"] = self._adapter.initial_tick_ms()
        last_ms = 0.0
        for ordinal in range(self._rng.choice([8, 20, 40])):
            snapshot = self._snapshot(ordinal, now_ms, last_ms)
            decision = self._adapter.on_tick(snapshot)
            why = self._adapter._ticks[-1]["effects"]["diagnostics"]
            self.record["snapshots"].append(snapshot)
            self.record["decisions"].append({**decision, **_reasons(why)})
            for pool in self._pools:
                target = decision[f"target_{pool.stage}"]
                if target is not None:
                    pool.scale(target, now_ms, self._rng)
            last_ms, now_ms = now_ms, decision["next_tick_ms"]
        self._adapter.close()
        return self.record

    def _snapshot(self, ordinal: int, now_ms: float, last_ms: float) -> dict[str, Any]:
        rng = self._rng
        if rng.random() < 0.15:
            self._load = rng.choice([0, 0.1, 1, 4, 10])
        if rng.random() < 0.1:
            self._lengths = self._draw_lengths()
        snapshot: dict[str, Any] = {"tick_ordinal": ordinal, "now_ms": now_ms}
        absent = [FakePool("prefill", 0, 0)] if self._is_agg else []
        for pool in [*absent, *self._pools]:
            pool.move_to(now_ms)
            prefills = pool.stage == "prefill" or self._is_agg
            snapshot[f"{pool.stage}_fpm_snapshots"] = [
                draw_pass(worker, pool.stage, prefills, self._load, rng)
                for worker in sorted(pool.active)
                if rng.random() >= 0.15
            ]
            snapshot |= pool.counts()
        since_s = (now_ms - last_ms) / 1000.0
        return snapshot | {"traffic": draw_traffic(since_s, self._load, self._lengths, self._nextn, rng)}

    def _draw_lengths(self) -> tuple[float, float]:
        return self._rng.uniform(10, 6000), self._rng.uniform(1, 400)


def _reasons(why: dict[str, Any]) -> dict[str, Any]:
    return {
        "load": why["load_decision_reason"],
        "throughput": why["throughput_decision_reason"],
        "load_prefill": why["load_decision_reason_prefill"],
        "load_decode": why["load_decision_reason_decode"],
        "throughput_prefill": why["throughput_decision_reason_prefill"],
        "throughput_decode": why["throughput_decision_reason_decode"],
        "rps_prefill": why["engine_rps_prefill"],
        "rps_decode": why["engine_rps_decode"],
        "requests": why["predicted_num_req"],
    }


def main() -> None:
    """Write COUNT cases, one JSON line each; settings that the reference refuses are passed over."""
    count, seed, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    planner = load_planner()
    with open(path, "w", encoding="utf-8") as target:  # noqa: PTH123 - of another interpreter
        while count:
            try:
                case = Case(planner, seed)
            except ValueError:
                seed += 1
                continue
            target.write(json.dumps(case.run()) + "\n")
            seed, count = seed + 1, count - 1


if __name__ == "__main__":
    main()
