"""The screen of closed loops against replays: single estimates, small pools, and a complete space."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.spica.pool_gp.design import spread_over_front
from aisimulate.spica.pool_gp.fronts import area
from aisimulate.spica.pool_gp.screening import near_to
from aisimulate.spica.samplers.base import Suggestion
from aisimulate.spica.screen.goals import objective_columns
from aisimulate.spica.screen.whole_pool import screen_branch
from tools.bench_screen.candidates import Measured, Problem, estimated, measured, problem, replayed
from tools.bench_screen.figures import accuracy, spearman
from tools.bench_screen.lines import Line, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from aisimulate.spica.screen.whole_pool import PoolScreen

    Floats = NDArray[np.float64]

_KEYS = ("output_throughput_tok_s", "mean_output_token_throughput_per_user")
_BOTH = ["vllm", "sglang"]
# Space, prompt, output: models, GPUs and backends as different as the data allow.
SETS: dict[str, tuple[dict[str, Any], int, int]] = {
    "Qwen3-32B h200 1k/1k": (
        {"model_name": "Qwen/Qwen3-32B", "hardware_sku": "h200_sxm", "gpu_budget": 8, "backend": _BOTH},
        1024,
        1024,
    ),
    "Llama-70B h200 3k/300": (
        {
            "model_name": "meta-llama/Meta-Llama-3.1-70B",
            "hardware_sku": "h200_sxm",
            "gpu_budget": 16,
            "backend": _BOTH,
        },
        3000,
        300,
    ),
    "Qwen3-235B h200 1k/1k": (
        {
            "model_name": "Qwen/Qwen3-235B-A22B",
            "hardware_sku": "h200_sxm",
            "gpu_budget": 16,
            "backend": _BOTH,
        },
        1024,
        1024,
    ),
    "Qwen3-32B b200 6k/500": (
        {"model_name": "Qwen/Qwen3-32B", "hardware_sku": "b200_sxm", "gpu_budget": 8, "backend": _BOTH},
        6000,
        500,
    ),
    "Llama-8B h100 512/128": (
        {
            "model_name": "meta-llama/Meta-Llama-3.1-8B",
            "hardware_sku": "h100_sxm",
            "gpu_budget": 8,
            "backend": _BOTH,
        },
        512,
        128,
    ),
}


def closed_loop(name: str, space: dict[str, Any], prompt: int, output: int) -> Problem:
    """Set up a search over a range of loads."""
    workload = {"isl": prompt, "osl": output, "kv_load_ratio": [0.0, 1.0], "num_request_ratio": 10}
    modes = {"deployment_mode": ["agg", "disagg"], "context_length": 16384}
    return problem(name, modes | space, workload)


def accuracy_lines(each: int, seed: int) -> Iterator[Line]:
    """Compare estimates with replays of fresh random candidates, set by set and all together."""
    errors: list[Floats] = []
    for name, (space, prompt, output) in SETS.items():
        asked = closed_loop(name, space, prompt, output)
        done = measured(asked, each, seed)
        truth = _truth(done)
        guess = objective_columns(estimated(asked, done), asked.plan.config.goal.targets)
        errors.append(abs(guess / truth - 1))
        for column, what in enumerate(("tok/s/GPU", "tok/s/user")):
            found = accuracy(truth[:, column], guess[:, column])
            yield Line(
                f"{name}, {what} ({len(done)})",
                f"rank {found.spearman:.4f}, median {percent(found.median)}, p90 {percent(found.p90)}, "
                f"max {percent(found.largest)}",
                "rank >= .99",
                found.spearman >= 0.99,
            )
        yield _small_pool(name, truth, guess)
    for column, what in enumerate(("tok/s/GPU", "tok/s/user")):
        every = np.concatenate(errors)[:, column]
        median, p90 = float(np.median(every)), float(np.quantile(every, 0.9))
        yield Line(
            f"all sets, {what} ({len(every)})",
            f"median {percent(median)}, p90 {percent(p90)}",
            "<= 1 %, <= 5 %",
            median <= 0.01 and p90 <= 0.05,
        )


def _small_pool(name: str, truth: Floats, guess: Floats) -> Line:
    """Tell what the best 16 screened points hold of the pool's true hypervolume."""
    rows = spread_over_front(guess, 16)
    share = area(truth[rows]) / area(truth)
    return Line(f"{name}, 16 of a pool of {len(truth)}", f"hypervolume {share:.4f}", ">= .99", share >= 0.99)


def complete_space_lines(seed: int) -> Iterator[Line]:
    """Screen a complete space, replay 48 points of its front, and compare with the best that is known."""
    space, prompt, output = SETS["Qwen3-32B h200 1k/1k"]
    asked = closed_loop("8 GPUs", space, prompt, output)
    started_s = time.process_time()
    pools = [screen_branch(asked.plan.config, branch, asked.screen) for branch in asked.plan.branches]
    used_s = time.process_time() - started_s
    points = sum(len(pool.rows.point_rows) for pool in pools)
    yield Line(
        f"complete space of 8 GPUs, {points:,} points",
        f"{used_s:.2f} CPU s, {points / used_s:,.0f} points/s",
        "176,000 in 10 s",
        points / used_s >= 17_600,
    )
    yield from _front_lines(asked, pools, seed)


def _front_lines(asked: Problem, pools: Sequence[PoolScreen], seed: int) -> Iterator[Line]:
    parts = [objective_columns(pool.estimates, asked.plan.config.goal.targets) for pool in pools]
    screened = np.maximum(np.nan_to_num(np.concatenate(parts)), 1e-12)
    rows = spread_over_front(screened, 48)
    first = _truth(_replay_rows(asked, pools, rows))
    others = [row for row in spread_over_front(screened, 144) if row not in set(rows)]
    near = near_to(screened[spread_over_front(screened, 400)], screened, 0.02)
    others += np.random.default_rng(seed).choice(near, min(24, len(near)), replace=False).tolist()
    known = np.concatenate([first, _truth(_replay_rows(asked, pools, others))])
    share = area(first) / area(known)
    yield Line(
        f"48 replays of it, of {len(known)} known",
        f"hypervolume {share:.4f}, rank of the 48 {spearman(first[:, 0], screened[rows, 0]):.3f}",
        ">= .98",
        share >= 0.98,
    )


def _replay_rows(asked: Problem, pools: Sequence[PoolScreen], rows: Sequence[int]) -> list[Measured]:
    """Replay rows of all branches until they settle, as the smallest deployment that they stand for."""
    starts = np.cumsum([0, *(len(pool.rows.units) for pool in pools)])
    found: list[Measured] = []
    for row in rows:
        branch = int(np.searchsorted(starts, row, "right")) - 1
        pool, place = pools[branch], row - int(starts[branch])
        structures = pool.rows.point_structures[pool.rows.point_rows == place]
        number = int(structures[np.argmin(pool.structures.copies[structures])])
        selection, config = pool.structures.point(number)
        in_flight = pool.rows.loads[place] * pool.structures.copies[number]
        ratio = _ratio(asked, selection, config, float(in_flight))
        done = replayed(asked, Suggestion(selection | {"kv_load_ratio": ratio}, config), short=True)
        found += [] if done is None else [done]
    return found


def _ratio(asked: Problem, selection: dict[str, Any], config: Any, in_flight: float) -> float:
    """Return the share of the cache that so many requests are."""
    capacity = int(asked.screen.capacity_of(selection, config))
    return min(1.0, (in_flight + 0.5) / max(1, capacity))


def _truth(done: Sequence[Measured]) -> Floats:
    return np.array(
        [
            [each.metrics[_KEYS[0]] / each.prepared.config["used_gpus"], each.metrics[_KEYS[1]]]
            for each in done
        ]
    )
