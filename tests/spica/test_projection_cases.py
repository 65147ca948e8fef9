"""Projection of latent features onto a pool (spec 05 section 6)."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.spica.parallel_enum import (
    DisaggParallelConfig,
    ParallelShape,
    ReplicaParallelConfig,
    enumerate_disagg_configs,
    enumerate_parallel_configs,
)
from aisimulate.spica.parallel_projection import ParallelConfigProjector, geometric_centre
from aisimulate.spica.search_space import BranchSpace

CASES = json.loads((Path(__file__).parents[1] / "data/search/projection_cases.json").read_text())


def as_config(data):
    if "prefill" in data:
        return DisaggParallelConfig(as_config(data["prefill"]), as_config(data["decode"]))
    return ReplicaParallelConfig(ParallelShape(**data["shape"]), data["replicas"])


def branch_of(configs, backends=("vllm",), gpu_budget=None):
    """Build a branch; `configs` is a list, or a dict config -> backends."""
    supported = configs if isinstance(configs, dict) else dict.fromkeys(configs, backends)
    mode = "disagg" if isinstance(next(iter(supported), None), DisaggParallelConfig) else "agg"
    return BranchSpace(
        deployment_mode=mode,
        parallel_configs=tuple(supported),
        supported_backends={config: frozenset(names) for config, names in supported.items()},
        knob_choices={},
        gpu_budget=gpu_budget,
    )


def case_branch(case):
    if "pool" in case:
        pool = {as_config(row["config"]): row["backends"] for row in case["pool"]}
    else:
        disagg = case["deployment_mode"] == "disagg"
        enumerate_pool = enumerate_disagg_configs if disagg else enumerate_parallel_configs
        pool = {config: [case["backend"]] for config in enumerate_pool(**case["pool_rule"])}
        assert len(pool) == case["pool_size"]
    return branch_of(pool, gpu_budget=case["gpu_budget"])


def parameter_row(parameter):
    row = {"name": parameter.name, "kind": parameter.kind}
    if parameter.kind == "float":
        row |= {"minimum": parameter.minimum, "maximum": parameter.maximum}
    else:
        row["values"] = list(parameter.values)
    if parameter.log_scale:
        row["log_scale"] = True
    return row | {"default": parameter.default, "constant": parameter.constant}


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["id"])
def test_case_parameters(case):
    rows = [parameter_row(p) for p in ParallelConfigProjector(case_branch(case)).parameters]
    expected = [{k: v for k, v in row.items() if k != "reference_default"} for row in case["parameters"]]
    assert rows == expected


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["id"])
def test_case_projection(case):
    expected = case["expected"]
    result = ParallelConfigProjector(case_branch(case)).project(case["request"], case["backend"])
    assert result.config == as_config(expected["config"])
    assert result.distance == pytest.approx(expected["distance"], abs=1e-12)
    assert result.mode_projected == expected["mode_projected"]
    assert result.requested_features == expected["requested_features"]
    assert result.actual_features == expected["actual_features"]


@pytest.mark.parametrize("row", CASES["geometric_defaults"], ids=lambda row: str(row["values"]))
def test_geometric_centre_table(row):
    assert geometric_centre(row["values"]) == row["default"]


@given(st.lists(st.integers(1, 10_000), min_size=1))
def test_geometric_centre_is_nearest_and_smallest(sizes):
    centre = geometric_centre(sizes)
    product = min(sizes) * max(sizes)

    def stretch(size):  # cross-multiplied, so exact
        return max(size * size, product), min(size * size, product)

    best_high, best_low = stretch(centre)
    assert centre in sizes
    for size in sizes:
        high, low = stretch(size)
        assert best_high * low < high * best_low or (best_high * low == high * best_low and centre <= size)


TEP4X4 = ReplicaParallelConfig(ParallelShape(4, 1, 1, 4), 4)
DEP8X2 = ReplicaParallelConfig(ParallelShape(1, 8, 1, 8), 2)
DEP16X2 = ReplicaParallelConfig(ParallelShape(1, 16, 1, 16), 2)
TEP8X2 = ReplicaParallelConfig(ParallelShape(8, 1, 1, 8), 2)
ONE_GPU_X8 = ReplicaParallelConfig(ParallelShape(1, 1, 1, 1), 8)


def test_parameters_of_a_mixed_pool():
    projector = ParallelConfigProjector(branch_of([ONE_GPU_X8, TEP4X4, DEP16X2], gpu_budget=32))
    ratio, size, attention, ffn = projector.parameters
    assert (ratio.default, ratio.minimum, ratio.maximum) == (1.0, 0.25, 1.0)
    assert (size.values, size.default, size.log_scale) == ((1.0, 4.0, 16.0), 4.0, True)
    assert (attention.values, attention.default) == (("tp", "dp"), "tp")
    assert (ffn.values, ffn.default) == (("ep", "tp"), "ep")


def test_dense_pool_has_no_ffn_parameter():
    pool = enumerate_parallel_configs(is_moe=False, backend="vllm", gpu_budget=4)
    names = [p.name for p in ParallelConfigProjector(branch_of(pool)).parameters]
    assert names == ["used_gpu_ratio", "agg_num_gpus_per_engine_target", "agg_attention_mode"]


def test_backend_filter_and_unknown_backend():
    wide = ReplicaParallelConfig(ParallelShape(16, 1, 1, 16), 1)
    projector = ParallelConfigProjector(
        branch_of({TEP4X4: ["vllm"], TEP8X2: ["vllm", "sglang"], wide: ["sglang"]}, gpu_budget=16)
    )
    request = {"agg_num_gpus_per_engine_target": 16}
    assert projector.project(request, "sglang").config == wide
    vllm = projector.project(request, "vllm")
    assert (vllm.config, vllm.distance) == (TEP8X2, 1.0)
    with pytest.raises(ValueError, match="'trtllm'"):
        projector.project(request, "trtllm")


def test_mode_fallback_is_reported():
    projector = ParallelConfigProjector(branch_of([TEP4X4, DEP8X2], gpu_budget=32))
    asked = {
        "used_gpu_ratio": 0.5,
        "agg_num_gpus_per_engine_target": 8,
        "agg_attention_mode": "dp",
        "agg_ffn_mode": "tp",
    }
    result = projector.project(asked, "vllm")
    assert (result.config, result.mode_projected, result.distance) == (DEP8X2, True, 0.0)


def test_empty_pool_is_refused():
    with pytest.raises(ValueError, match="empty"):
        ParallelConfigProjector(branch_of([]))


def test_single_config_pool_is_all_constant():
    projector = ParallelConfigProjector(branch_of([DEP8X2]))
    assert all(parameter.constant for parameter in projector.parameters)
    result = projector.project({}, "vllm")
    assert (result.config, result.distance, result.mode_projected) == (DEP8X2, 0.0, False)


def test_entries_that_are_no_features_are_ignored():
    projector = ParallelConfigProjector(branch_of([TEP4X4, DEP8X2], gpu_budget=32))
    assert projector.project({"router_mode": "kv_router"}, "vllm") == projector.project({}, "vllm")


def test_a_size_that_has_no_logarithm_is_refused():
    projector = ParallelConfigProjector(branch_of([TEP4X4, DEP8X2], gpu_budget=32))
    with pytest.raises(ValueError, match="agg_num_gpus_per_engine_target: 0 must be positive"):
        projector.project({"agg_num_gpus_per_engine_target": 0}, "vllm")


def test_metadata_is_json_with_the_stated_keys():
    projector = ParallelConfigProjector(branch_of([TEP4X4, DEP8X2], gpu_budget=32))
    metadata = projector.project({"agg_attention_mode": "dp"}, "vllm").metadata()
    assert set(metadata) == {
        "requested_features",
        "actual_features",
        "projection_distance",
        "mode_projected",
        "actual_parallel_config",
    }
    assert metadata["actual_parallel_config"] == dataclasses.asdict(DEP8X2)
    assert json.loads(json.dumps(metadata)) == metadata


MOE_16 = enumerate_disagg_configs(is_moe=True, backend="vllm", gpu_budget=16)
MOE_PROJECTOR = ParallelConfigProjector(branch_of(MOE_16, gpu_budget=16))


@given(st.sampled_from(MOE_16))
def test_exact_features_come_back_as_themselves(config):
    """Every config is fully described by its features, so asking for them is exact."""
    found = MOE_PROJECTOR.project(dict(features_of(config)), "vllm")
    assert (found.config, found.mode_projected) == (config, False)
    assert math.isclose(found.distance, 0.0, abs_tol=1e-12)


def features_of(config):
    yield "used_gpu_ratio", config.total_gpus / 16
    yield "prefill_gpu_share", config.prefill.total_gpus / config.total_gpus
    for role in ("prefill", "decode"):
        shape = getattr(config, role).shape
        yield f"{role}_num_gpus_per_engine_target", shape.gpus_per_worker
        yield f"{role}_attention_mode", "dp" if shape.dp > 1 else "tp"
        yield f"{role}_ffn_mode", "ep" if shape.moe_ep > 1 else "tp"
