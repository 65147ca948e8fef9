"""Decisions and reasons of the reference, tick by tick, and the worked numbers of spec 03 part B."""

from __future__ import annotations

from typing import Any

import pytest

from aisimulate.core.forward_pass import ForwardPass
from aisimulate.forecast import TrafficForecaster
from aisimulate.planner.model import EngineModel, Shape
from aisimulate.planner.observations import Observation, PoolCounts, Traffic
from aisimulate.planner.reference import ReferencePlanner
from aisimulate.planner.settings import EngineLimits, PlannerSettings
from aisimulate.planner.tick import TickResult

from .reference import LinearPasses, policy_of, recorded_cases

CASES = recorded_cases()
LIMITS = EngineLimits(1, 8192, 256, 400_000, 16_384)
SHAPE = Shape(4000, 200)


def decided(answer: Any, result: TickResult | None, pools: tuple[str, ...]) -> list[Any]:
    assert result is not None
    rps = [result.engine_rps.get(pool) for pool in pools]
    values = [answer["target_decode"], answer["next_tick_ms"], result.load.reason, result.throughput.reason]
    if len(pools) > 1:
        by_pool = (result.load.by_pool, result.throughput.by_pool)
        values += [answer["target_prefill"], *(reasons.get(pool) for reasons in by_pool for pool in pools)]
    return [*values, *map(nearly, rps if len(rps) > 1 else rps * 2)]


def wanted(recorded: dict[str, Any], pools: tuple[str, ...]) -> list[Any]:
    values = [recorded[key] for key in ("target_decode", "next_tick_ms", "load", "thr")]
    if len(pools) > 1:
        values += [recorded[key] for key in ("target_prefill", "lp", "ld", "tp", "td")]
    return [*values, nearly(recorded["rp"]), nearly(recorded["rd"])]


def nearly(value: float | None) -> str | None:
    """Spell a rate to ten digits."""
    return None if value is None else f"{value:.9e}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["case"]))
def test_every_tick_is_decided_as_the_reference_does(case: dict[str, Any]) -> None:
    pools = ("agg",) if case["config"]["mode"] == "agg" else ("prefill", "decode")
    policy = policy_of(case)
    assert policy.initial_tick_ms() == case["first"]
    for snapshot, recorded in zip(case["snapshots"], case["decisions"], strict=True):
        got = decided(policy.on_tick(snapshot), policy.last, pools)
        assert got == wanted(recorded, pools), snapshot["tick_ordinal"]


def test_recorded_ticks_cover_every_reason() -> None:
    reasons = {row[key] for case in CASES for row in case["decisions"] for key in ("load", "thr")}
    assert reasons >= {
        "no_fpm_data",
        "insufficient_data",
        "worker_count_mismatch",
        "scaling_in_progress",
        "scale_up",
        "scale_down",
        "scale_down_capped_by_throughput",
        "scale_down_refused_consolidation",
        "gpu_budget_guard_hold",
        "gpu_budget_reconcile",
        "no_change",
        "model_not_ready",
        "set_lower_bound",
        "scale",
    }


# Worked numbers (spec 03 section B5) --------------------------------------------------------------------


def model(pool: str) -> EngineModel:
    return EngineModel(pool, LinearPasses(), LIMITS, 64)


def test_capacity_of_a_prefill_engine() -> None:
    found = model("prefill").capacity(SHAPE, 500.0, None)
    assert found is not None
    assert (found.rps, found.ttft_s, found.eligible) == (pytest.approx(2 / 0.165), pytest.approx(0.165), True)


def test_capacity_of_a_decode_engine() -> None:
    found = model("decode").capacity(SHAPE, None, 30.0)
    assert found is not None
    assert found.rps == pytest.approx(97 / (200 * 0.017804), rel=1e-12)
    assert found.itl_s == pytest.approx(0.017804)


@pytest.mark.parametrize(("hits", "rps"), [(None, 7.8040), (0.5, 12.5418)])
def test_capacity_of_an_aggregated_engine(hits: float | None, rps: float) -> None:
    found = model("agg").capacity(Shape(4000, 200, hits), 500.0, 30.0)
    assert found is not None
    assert found.rps == pytest.approx(rps, abs=5e-5)


def sla_pair(ready: tuple[int, int], **changes: Any) -> ReferencePlanner:
    settings = PlannerSettings(
        pools=("prefill", "decode"),
        target="sla",
        scales_by_throughput=True,
        scales_by_load=False,
        itl_ms=30.0,
        min_replicas=(1, 1),
        **{"max_gpus": 64, "tick_s": 180.0, **changes},
    )
    limits = {"prefill": LIMITS, "decode": LIMITS}
    models = {pool: model(pool) for pool in settings.pools}
    return ReferencePlanner(settings, limits, models, TrafficForecaster("constant_last", interval_s=180.0))


def sized(ready: tuple[int, int], requests: float, **changes: Any) -> TickResult:
    counts = {
        pool: PoolCounts(count, count) for pool, count in zip(("prefill", "decode"), ready, strict=True)
    }
    traffic = Traffic(180.0, requests, 4000.0, 200.0)
    return sla_pair(ready, **changes).tick(Observation(180.0, counts, {}, traffic))


def test_demand_is_divided_by_what_an_engine_sustains() -> None:
    assert sized((3, 3), 3600.0).targets == (2, 1)


def test_a_step_is_capped() -> None:
    assert sized((2, 2), 36_000.0).targets == (10, 8)


def test_a_step_fits_into_the_gpus() -> None:
    assert sized((2, 2), 36_000.0, max_gpus=8).targets == (4, 4)


def test_no_demand_needs_the_floor_alone() -> None:
    planner = sla_pair((6, 5))
    counts = {"prefill": PoolCounts(6, 6), "decode": PoolCounts(5, 5)}
    busy = Traffic(180.0, 12_000.0, 4000.0, 200.0)
    idle = Traffic(180.0, 0.0, 0.0, 0.0)
    planner.tick(Observation(180.0, counts, {}, busy))
    assert planner.tick(Observation(360.0, counts, {}, idle)).targets == (1, 1)


# Thresholds (spec 03 section B4) ---------------------------------------------------------------------------


def eased(pools: tuple[str, ...], ready: int, target: str = "throughput", **load: int) -> TickResult:
    settings = PlannerSettings(pools=pools, target=target, max_gpus=64, min_replicas=(1,) * len(pools))
    planner = ReferencePlanner(settings, dict.fromkeys(pools, LIMITS))
    passes = [ForwardPass(worker_id=number, **load) for number in range(ready)]
    counts = {pool: PoolCounts(ready, ready) for pool in pools}
    return planner.tick(Observation(5.0, counts, {pools[0]: passes}))


@pytest.mark.parametrize(("queued", "target"), [(1638, 1), (1639, None), (16_383, None), (16_384, 3)])
def test_bounds_of_the_prompt_queue(queued: int, target: int | None) -> None:
    result = eased(("prefill", "decode"), 2, sum_queued_prefill_tokens=queued)
    assert (result.targets and result.targets[0]) == target


def test_a_pool_without_a_context_length_says_so() -> None:
    settings = PlannerSettings(pools=("prefill", "decode"), min_replicas=(1, 1))
    limits = dict.fromkeys(settings.pools, EngineLimits(1, 8192, 256, 400_000, None))
    planner = ReferencePlanner(settings, limits)
    passes = {"prefill": [ForwardPass(sum_queued_prefill_tokens=99_999)]}
    counts = {pool: PoolCounts(1, 1) for pool in settings.pools}
    result = planner.tick(Observation(5.0, counts, passes))
    assert (result.targets, result.load.by_pool["prefill"]) == (None, "insufficient_data")


@pytest.mark.parametrize(("tokens", "target"), [(200_000, None), (180_000, 1)])
def test_what_is_taken_away_must_not_fill_the_others(tokens: int, target: int | None) -> None:
    result = eased(("agg",), 2, sum_decode_kv_tokens=tokens)
    assert (result.targets and result.targets[0]) == target


# Bounds on latency (spec 03 section B6) ----------------------------------------------------------------


@pytest.mark.parametrize(("queues", "target"), [((30_000, 30_000), 3), ((30_000, 0), None)])
def test_only_a_pool_without_any_way_out_grows(queues: tuple[int, int], target: int | None) -> None:
    settings = PlannerSettings(pools=("prefill", "decode"), target="sla", max_gpus=64, min_replicas=(1, 1))
    models = {pool: model(pool) for pool in settings.pools}
    planner = ReferencePlanner(settings, dict.fromkeys(settings.pools, LIMITS), models)
    passes = [
        ForwardPass(worker_id=number, sum_queued_prefill_tokens=queue) for number, queue in enumerate(queues)
    ]
    counts = {"prefill": PoolCounts(2, 2), "decode": PoolCounts(1, 1)}
    result = planner.tick(Observation(5.0, counts, {"prefill": passes}))
    assert (result.targets and result.targets[0]) == target
