"""Enumeration of worker shapes and pools (spec 05 sections 4.1, 4.2 and 16)."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.core.errors import InputError
from aisimulate.spica.parallel_enum import (
    DisaggParallelConfig,
    ParallelShape,
    ReplicaParallelConfig,
    enumerate_disagg_configs,
    enumerate_parallel_configs,
    enumerate_worker_shapes,
    strategy_label,
)

CASES = json.loads((Path(__file__).parents[1] / "data/search/enumeration_cases.json").read_text())

TEP4 = ParallelShape(4, 1, 1, 4)
DEP4 = ParallelShape(1, 4, 1, 4)
TP4 = ParallelShape(4, 1, 4, 1)
DTP4 = ParallelShape(1, 4, 4, 1)


def shapes(is_moe, gpus, backend="vllm", **options):
    return enumerate_worker_shapes(is_moe=is_moe, backend=backend, gpus_per_worker=gpus, **options)


@pytest.mark.parametrize(
    "row", CASES["counts"], ids=lambda r: f"{r['is_moe']}-{r['backend']}-{r['gpu_budget']}"
)
def test_pool_sizes(row):
    keys = ("is_moe", "backend", "gpu_budget", "min_gpu_budget")
    arguments = {key: row[key] for key in keys}
    assert len(enumerate_parallel_configs(**arguments)) == row["agg"]
    assert len(enumerate_disagg_configs(**arguments)) == row["disagg"]


@pytest.mark.parametrize(
    "case", CASES["full_lists"], ids=lambda c: f"{c['mode']}-{c['is_moe']}-{c['gpu_budget']}"
)
def test_full_lists_in_order(case):
    enumerate_pool = enumerate_disagg_configs if case["mode"] == "disagg" else enumerate_parallel_configs
    pool = enumerate_pool(is_moe=case["is_moe"], backend=case["backend"], gpu_budget=case["gpu_budget"])
    assert [dataclasses.asdict(config) for config in pool] == case["ordered"]


@pytest.mark.parametrize("row", CASES["strategy_labels"])
def test_strategy_labels(row):
    shape = ParallelShape(row["tp"], row["attention_dp"], row["moe_tp"], row["moe_ep"])
    assert strategy_label(shape) == row["strategy"]
    assert shape.gpus_per_worker == row["gpus_per_worker"]


def test_dense_worker_has_one_shape():
    assert shapes(False, 4) == [ParallelShape(4, 1, 1, 1)]


def test_moe_worker_has_four_pure_patterns_on_every_backend():
    for backend in ("vllm", "sglang", "trtllm"):
        assert shapes(True, 4, backend) == [DEP4, DTP4, TEP4, TP4]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"allow_moe_pure_tp": False}, [DEP4, TEP4]),
        ({"backend": "sglang", "moe_backend": "deepep_moe"}, [DEP4, TEP4]),
        ({"backend": "sglang", "moe_backend": "megamoe"}, [DEP4, TEP4]),
        ({"backend": "vllm", "moe_backend": "deepep_moe"}, [DEP4, DTP4, TEP4, TP4]),
        ({"backend": "sglang", "moe_backend": "cutlass_moe"}, [DEP4, DTP4, TEP4, TP4]),
        ({"backend": "sglang", "enable_wideep": True}, [DEP4, DTP4, TEP4, TP4]),
    ],
)
def test_moe_filters(options, expected):
    assert shapes(True, 4, **options) == expected


def test_single_gpu_moe_only_behind_its_flag():
    assert shapes(True, 1) == []
    assert shapes(True, 1, include_single_gpu_moe=True) == [ParallelShape(1, 1, 1, 1)]
    pool = enumerate_parallel_configs(is_moe=True, backend="vllm", gpu_budget=2, include_single_gpu_moe=True)
    assert [config.replicas for config in pool if config.shape.gpus_per_worker == 1] == [1, 2]


def test_dense_replicas_per_worker_size():
    pool = enumerate_parallel_configs(is_moe=False, backend="vllm", gpu_budget=8)
    replicas = {size: [c.replicas for c in pool if c.shape.tp == size] for size in (1, 2, 4, 8)}
    assert replicas == {8: [1], 4: [1, 2], 2: [1, 2, 3, 4], 1: [1, 2, 3, 4, 5, 6, 7, 8]}


def test_minimum_worker_size_and_minimum_budget():
    large = enumerate_parallel_configs(is_moe=False, backend="vllm", gpu_budget=8, min_gpus_per_worker=4)
    assert {config.shape.gpus_per_worker for config in large} == {4, 8}
    floored = enumerate_parallel_configs(is_moe=False, backend="vllm", gpu_budget=8, min_gpu_budget=4)
    assert [c.replicas for c in floored if c.shape.tp == 2] == [2, 3, 4]


def test_disagg_facts():
    assert len(enumerate_disagg_configs(is_moe=True, backend="trtllm", gpu_budget=8)) == 176
    full = enumerate_disagg_configs(is_moe=True, backend="trtllm", gpu_budget=8, min_gpu_budget=8)
    assert len(full) == 96
    assert {config.total_gpus for config in full} == {8}
    dense = enumerate_disagg_configs(is_moe=False, backend="vllm", gpu_budget=4)
    assert {strategy_label(role.shape) for c in dense for role in (c.prefill, c.decode)} == {"tp"}


def test_totals():
    pool = ReplicaParallelConfig(ParallelShape(2, 2, 1, 4, pp=2), 3)
    assert pool.total_gpus == 24
    assert DisaggParallelConfig(pool, ReplicaParallelConfig(DEP4, 1)).total_gpus == 28


@given(st.booleans(), st.integers(1, 40), st.integers(1, 40), st.sampled_from(["vllm", "sglang", "trtllm"]))
def test_every_pool_is_legal_and_distinct(is_moe, low, high, backend):
    floor, budget = sorted((low, high))
    pool = enumerate_parallel_configs(is_moe=is_moe, backend=backend, gpu_budget=budget, min_gpu_budget=floor)
    assert len(set(pool)) == len(pool)
    for config in pool:
        shape = config.shape
        assert floor <= config.total_gpus <= budget
        assert not is_moe or shape.tp * shape.dp == shape.moe_tp * shape.moe_ep == shape.gpus_per_worker


def test_bad_arguments_name_the_rule():
    with pytest.raises(InputError, match=r"backend: 'vlm' is not one of vllm.*did you mean 'vllm'"):
        shapes(False, 2, "vlm")
    with pytest.raises(InputError, match="gpus_per_worker: 0 must be at least 1"):
        shapes(False, 0)


def test_a_budget_below_one_worker_gives_an_empty_pool():
    assert enumerate_parallel_configs(is_moe=True, backend="vllm", gpu_budget=1) == []
    assert enumerate_disagg_configs(is_moe=False, backend="vllm", gpu_budget=1) == []


def test_a_budget_with_too_many_pairs_is_refused_before_they_are_listed():
    with pytest.raises(InputError, match=r"search_space.gpu_budget: 16384 GPUs allow \d+ pairs .* 5000000"):
        enumerate_disagg_configs(is_moe=True, backend="vllm", gpu_budget=16_384)
