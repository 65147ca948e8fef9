"""Engines whose speed the screen has wrong, found out from pairs of pools that each limit in turn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sampler_contract import small_branch

from aisimulate.spica.parallel_enum import DisaggParallelConfig, ParallelShape, ReplicaParallelConfig
from aisimulate.spica.pool_gp.fronts import area
from aisimulate.spica.samplers.branch_pool import BranchPool
from aisimulate.spica.samplers.pool_gp_sampler import PoolGpSampler

SIZES = (1, 2, 4)
PREFILL_SLOWER = {1: 1.2, 2: 0.8, 4: 1.0}
DECODE_SLOWER = {1: 0.9, 2: 1.0, 4: 1.25}
RATE_AND_SPEED = [("throughput_per_gpu", True), ("throughput_per_user", True)]


def pair_branch(**changes):
    pools = [ReplicaParallelConfig(ParallelShape(tp, 1, 1, 1), n) for tp in SIZES for n in range(1, 9)]
    pairs = tuple(
        DisaggParallelConfig(p, d) for p in pools for d in pools if p.total_gpus + d.total_gpus <= 16
    )
    fields = {
        "deployment_mode": "disagg",
        "parallel_configs": pairs,
        "supported_backends": dict.fromkeys(pairs, frozenset({"vllm"})),
        "knob_choices": {
            "router_mode": ["round_robin"],
            "planner_scaling_policy": ["disabled"],
            "prefill_max_num_seqs": [1, 4],
            "decode_max_num_seqs": [64, 512],
            "backend": ["vllm"],
        },
        "gpu_budget": 16,
        "float_ranges": {"kv_load_ratio": (0.0, 1.0)},
    }
    return small_branch(**(fields | changes))


def speed(tp, requests, slower=1.0):
    """Tokens per second of each of the requests on one decode replica."""
    return 100.0 * tp**0.6 / (1.0 + requests / 60.0) / slower


def most_started(selection, config, slower):
    each = 1500.0 * (1.0 + 0.2 * (selection["prefill_max_num_seqs"] > 1))
    tp = config.prefill.shape.tp
    return config.prefill.replicas * each * tp**0.8 / slower[tp]


def screen(points):
    """Of tables alone: the slower of both pools, and the speed as if all requests decoded."""
    values = []
    for selection, config in points:
        tp, replicas = config.decode.shape.tp, config.decode.replicas
        inside = max(selection["kv_load_ratio"], 1e-3) * 200 * tp
        inside = min(inside, selection["decode_max_num_seqs"])
        rate = min(
            replicas * inside * speed(tp, inside), most_started(selection, config, dict.fromkeys(SIZES, 1.0))
        )
        values.append([rate / config.total_gpus, speed(tp, inside)])
    return values


def truth(selection, config, prefill_slower=PREFILL_SLOWER, decode_slower=DECODE_SLOWER):
    """In a closed loop, with the real speeds: no more decode than the prefill pool lets through."""
    tp, replicas = config.decode.shape.tp, config.decode.replicas
    inside = min(max(selection["kv_load_ratio"], 1e-3) * 200 * tp, selection["decode_max_num_seqs"])
    most = most_started(selection, config, prefill_slower)
    low, high = 0.0, inside
    for _ in range(60):
        middle = 0.5 * (low + high)
        if replicas * middle * speed(tp, middle, decode_slower[tp]) > most:
            high = middle
        else:
            low = middle
    now = speed(tp, low, decode_slower[tp])
    return [replicas * low * now / config.total_gpus, now]


def screen_of_loops(points):
    """Of a screen that knows closed loops, but not the speeds."""
    right = dict.fromkeys(SIZES, 1.0)
    return [truth(selection, config, right, right) for selection, config in points]


def true_logs(pool, keys):
    points = [pool.point(key) for key in keys]
    return np.log([truth(point.selection | floats, point.parallel_config) for point, floats in points])


def split(keys, pool, **sizes):
    """Keep the pairs whose pools have these sizes."""
    configs = [pool.point(key)[0].parallel_config for key in keys]
    return [
        key
        for key, config in zip(keys, configs, strict=True)
        if all(getattr(config, role).shape.tp == tp for role, tp in sizes.items())
    ]


@pytest.fixture(name="pool")
def pool_of_pairs():
    return BranchPool(pair_branch(), screen, in_pairs=True)


def test_what_a_screen_of_loops_knows_is_not_corrected():
    pool = BranchPool(pair_branch(), screen_of_loops, in_pairs=True)
    keys = pool.draw(400, np.random.default_rng(6))
    screened = np.log(pool.screen(keys))
    pool.calibration.fit(keys[:60], screened[:60])
    off = np.abs(pool.calibration.logs(keys) - screened)
    assert np.quantile(off, 0.9) < 0.02
    assert off.max() < 0.1
    assert (pool.calibration.pressure(keys) > 0.5).any()
    assert pool.calibration.doubt(keys).variances.max() < 0.1**2  # so far, no engine was off by much


@pytest.mark.parametrize("screened", [screen, screen_of_loops])
def test_speeds_are_found_whichever_pool_limits(screened):
    pool = BranchPool(pair_branch(), screened, in_pairs=True)
    rng = np.random.default_rng(5)
    measured, others = pool.draw(60, rng), pool.draw(300, rng)
    speeds = pool.calibration
    before = np.abs(speeds.logs(others) - true_logs(pool, others))
    speeds.fit(measured, true_logs(pool, measured))
    after = np.abs(speeds.logs(others) - true_logs(pool, others))
    away = np.abs(speeds.pressure(others)) > 0.1
    assert 0.2 < np.mean(speeds.pressure(others) > 0) < 0.8
    assert np.quantile(before, 0.9) > 0.2
    assert np.quantile(after[away], 0.9) < 0.03
    assert after.max() < 0.3 * before.max()


def test_a_pool_that_never_limits_says_nothing_of_its_engine(pool):
    drawn = split(pool.draw(3000, np.random.default_rng(1)), pool, decode=2)
    speeds = pool.calibration
    idle = [key for key, at in zip(drawn, speeds.pressure(drawn), strict=True) if at < -0.7]
    busy = [key for key, at in zip(drawn, speeds.pressure(drawn), strict=True) if at > 0.7]
    speeds.fit(idle[:30], true_logs(pool, idle[:30]))
    doubt = speeds.doubt([*split(busy, pool, prefill=2)[:1], idle[40]]).variances
    assert doubt[0, 0] > 0.1**2 > doubt[1, 0]  # the rate of a pool that limits, and of one that does not
    speeds.fit(idle[:30] + busy[:30], true_logs(pool, idle[:30] + busy[:30]))
    assert (speeds.doubt(split(busy, pool, prefill=2)[:1]).variances < 0.05**2).all()


def test_outliers_do_not_matter(pool):
    measured = pool.draw(80, np.random.default_rng(2))
    logs = true_logs(pool, measured)
    pool.calibration.fit(measured, logs)
    sound = pool.calibration.logs(measured)
    wild = logs.copy()
    wild[::10] += 1.5
    pool.calibration.fit(measured, wild)
    assert np.median(np.abs(pool.calibration.logs(measured) - sound)) < 0.02


def test_pairs_that_cannot_run_are_left_as_screened():
    def refusing(points):
        return [
            [1e-12, 1e-12] if config.decode.shape.tp == 4 else screen([(s, config)])[0]
            for s, config in points
        ]

    pool = BranchPool(pair_branch(), refusing, in_pairs=True)
    keys = pool.draw(200, np.random.default_rng(3))
    refused = split(keys, pool, decode=4)
    pool.calibration.fit(keys[:40], true_logs(pool, keys[:40]))
    assert (pool.calibration.logs(refused) == np.log(1e-12)).all()
    assert np.isfinite(pool.calibration.logs(keys)).all()


def test_caches_are_bounded_and_change_nothing(pool, monkeypatch):
    keys = pool.draw(200, np.random.default_rng(4))
    whole = pool.calibration.logs(keys)
    monkeypatch.setattr("aisimulate.spica.samplers.pool_parts._MOST_CACHED", 20)
    again = BranchPool(pair_branch(), screen, in_pairs=True).calibration
    parts = [again.logs(keys[at : at + 20]) for at in range(0, 200, 20)]
    assert (np.concatenate(parts) == whole).all()


@pytest.mark.parametrize(
    ("objectives", "changes", "calibrated"),
    [
        (RATE_AND_SPEED, {}, True),
        (RATE_AND_SPEED[::-1], {}, False),
        (None, {}, False),
        (RATE_AND_SPEED, {"float_ranges": {}}, False),
        (RATE_AND_SPEED, {"parallel_configs": (), "supported_backends": {}}, False),
    ],
)
def test_only_rate_and_speed_at_a_load_are_calibrated(objectives, changes, calibrated):
    sampler = PoolGpSampler(pair_branch(**changes), objectives=objectives, seed=1, screen=screen)
    assert (sampler._pool.calibration is not None) == calibrated


def test_a_search_with_wrong_speeds_finds_the_front():
    def found(objectives, screened):
        sampler = PoolGpSampler(pair_branch(), objectives=objectives, seed=1, screen=screened)
        values = []
        for _ in range(6):
            for suggestion in sampler.suggest(8):
                value = truth(suggestion.selection, suggestion.parallel_config)
                values.append(value)
                names = (name for name, _ in objectives)
                sampler.observe(suggestion, dict(zip(names, value, strict=True)))
        return np.array(values)

    other_names = [("a", True), ("b", True)]
    assert area(found(RATE_AND_SPEED, screen)) > 1.005 * area(found(other_names, screen))
    assert math.isfinite(area(found(RATE_AND_SPEED, None)))


def test_without_a_screen_pairs_are_described_by_their_balance():
    keys = BranchPool(pair_branch()).draw(50, np.random.default_rng(0))
    blind, seeing = BranchPool(pair_branch()).features(keys), BranchPool(pair_branch(), screen).features(keys)
    assert (blind[:, :-2] == seeing).all()
    for (index, (step,)), (balance, demand) in zip(keys, 5.0 * blind[:, -2:], strict=True):
        config = BranchPool(pair_branch()).point((index, (step,)))[0].parallel_config
        assert balance == pytest.approx(math.log(config.decode.total_gpus / config.prefill.total_gpus))
        assert demand - balance == pytest.approx(math.log(max(step / 1000, 5e-4)))
