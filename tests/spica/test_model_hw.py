"""Model and hardware facts, and pools filtered by KV capacity and timing data (with AIC 0.12 data)."""

from __future__ import annotations

import pytest

from aisimulate.core.errors import InputError
from aisimulate.spica import model_hw, timing_probe
from aisimulate.spica.kv_estimate import NoPerfDatabase, RoleKnobs
from aisimulate.spica.model_hw import (
    NoTimingData,
    NoViableParallelConfig,
    parallel_configs_for,
    resolve_model_hardware,
)
from aisimulate.spica.outcome import Reason
from aisimulate.spica.parallel_enum import ParallelShape, describe_shape, role_pools
from aisimulate.timing.aic.errors import AicDataGap

GLM5 = ("zai-org/GLM-5-FP8", "b200_sxm")
QWEN3 = ("Qwen/Qwen3-32B", "h200_sxm")
DEEPSEEK_GB200 = ("deepseek-ai/DeepSeek-V3", "gb200")


def pool_of(names, mode, budget, backend, **options):
    return parallel_configs_for(*names, gpu_budget=budget, deployment_mode=mode, backend=backend, **options)


def test_moe_facts():
    facts = resolve_model_hardware("deepseek-ai/DeepSeek-V3", "h200_sxm")
    assert (facts.is_moe, facts.mla, facts.max_context, facts.gpus_per_node) == (True, True, 163_840, 8)
    assert facts.weight_bytes / 2**30 == pytest.approx(657.3, abs=0.05)
    assert facts.vram_per_gpu == 141 * 2**30


def test_dense_facts():
    facts = resolve_model_hardware(*QWEN3, backend="sglang")
    assert (facts.is_moe, facts.mla, facts.enable_wideep, facts.max_context) == (False, False, False, 40_960)


def test_unknown_sku_lists_the_real_ones_and_the_nearest():
    with pytest.raises(InputError, match="unknown hardware_sku 'h200_smx'") as caught:
        resolve_model_hardware("Qwen/Qwen3-32B", "h200_smx")
    message = str(caught.value)
    assert "did you mean 'h200_sxm'" in message
    assert "gb200, gb300" in message
    assert "query_versions" not in message


def test_unknown_model_is_named():
    with pytest.raises(InputError, match="Qwen/Qwen3-33B"):
        resolve_model_hardware("Qwen/Qwen3-33B", "h200_sxm")


@pytest.mark.parametrize(("mode", "size"), [("agg", 15), ("disagg", 71)])
def test_qwen3_fits_everywhere(mode, size):
    assert len(pool_of(QWEN3, mode, 8, "vllm")) == size


@pytest.mark.parametrize(
    ("mode", "length", "size"), [("disagg", 2048, 1184), ("disagg", None, 804), ("agg", 2048, 52)]
)
def test_glm5_pools(mode, length, size):
    drops = []
    pool = pool_of(GLM5, mode, 72, "sglang", max_seq_len=length, on_drop=drops.append)
    assert len(pool) == size
    assert {drop.category for drop in drops} == {Reason.KV_CAPACITY}
    small = {drop.shape for drop in drops if drop.shape.gpus_per_worker < 8}
    assert {describe_shape(shape) for shape in small} == {
        f"{label}{size}" for label in ("DEP", "DTP", "TEP", "TP") for size in (2, 4)
    }


def test_deepseek_on_gb200_needs_eight_gpus_at_full_length():
    assert len(pool_of(DEEPSEEK_GB200, "agg", 16, "trtllm")) == 20


def test_deepseek_at_8192_tokens():
    pool = pool_of(DEEPSEEK_GB200, "agg", 16, "trtllm", max_seq_len=8192)
    assert pool
    assert all(c.shape.gpus_per_worker >= 4 and c.total_gpus <= 16 for c in pool)
    with pytest.raises(NoViableParallelConfig) as caught:
        pool_of(DEEPSEEK_GB200, "agg", 2, "trtllm", max_seq_len=8192)
    message = str(caught.value)
    for part in ("deepseek-ai/DeepSeek-V3", "gb200", "8192", "2 GPUs", "KV-cache estimate", "DEP2"):
        assert part in message
    assert not isinstance(caught.value, NoTimingData)


def test_a_shape_the_model_does_not_allow_is_dropped_with_its_reason():
    drops = []
    pool = pool_of(("MiniMaxAI/MiniMax-M2.5", "b200_sxm"), "agg", 8, "vllm", on_drop=drops.append)
    assert len(pool) == 26
    assert {(describe_shape(drop.shape), drop.category) for drop in drops} == {
        ("DTP8", Reason.SHAPE_NOT_VIABLE),
        ("TP8", Reason.SHAPE_NOT_VIABLE),
    }


def test_shapes_without_measured_kernels_are_dropped_as_data_gaps():
    """KV capacity is there for all of them: only the probe finds the gap."""
    drops = []
    pool = pool_of(("openai/gpt-oss-120b", "h200_sxm"), "agg", 4, "trtllm", on_drop=drops.append)
    assert {describe_shape(config.shape) for config in pool} == {"DEP2", "TEP2", "DEP4", "TEP4"}
    assert {(describe_shape(drop.shape), drop.category) for drop in drops} == {
        (label, Reason.DATA_GAP) for label in ("DTP2", "TP2", "DTP4", "TP4")
    }


def test_no_data_for_a_backend():
    with pytest.raises(NoPerfDatabase, match="vllm on a30"):
        pool_of(("Qwen/Qwen3-32B", "a30"), "agg", 8, "vllm")


def test_hardware_without_the_dtype_is_told_apart():
    with pytest.raises(NoTimingData, match="unsupported_dtype"):
        pool_of(("Qwen/Qwen3-32B-FP8", "a100_sxm"), "agg", 2, "vllm")


def test_a_budget_without_any_worker():
    with pytest.raises(NoViableParallelConfig, match="no worker fits"):
        pool_of(DEEPSEEK_GB200, "agg", 1, "trtllm")


def test_unknown_mode():
    with pytest.raises(InputError, match="did you mean 'disagg'"):
        pool_of(QWEN3, "disag", 8, "vllm")


@pytest.fixture
def fake_capacity(monkeypatch):
    """Let a test give the kept shapes of a role; records what was asked."""
    asked = []

    def feasible(shapes, *, role, max_num_tokens, memory_fraction, **_rest):
        asked.append((role, max_num_tokens, memory_fraction))
        return {shape: 10**6 for shape in shapes if role != "decode" or shape.tp > 1}

    monkeypatch.setattr(model_hw, "feasible_shape_tokens", feasible)
    return asked


def test_every_role_is_filtered_with_its_own_knobs(fake_capacity):
    knobs = {"prefill": RoleKnobs(16384, 0.8), "decode": RoleKnobs(4096, 0.95)}
    pool = pool_of(QWEN3, "disagg", 4, "vllm", role_knobs=knobs)
    assert fake_capacity == [("prefill", 16384, 0.8), ("decode", 4096, 0.95)]
    assert {config.prefill.shape.tp for config in pool} == {1, 2}
    assert {config.decode.shape.tp for config in pool} == {2}


def test_a_data_gap_drops_the_shape_in_the_role_that_needs_it(fake_capacity, monkeypatch):
    probed = []

    def probe(blob, prefill, decode):
        probed.append((blob.key.tp, prefill, decode))
        if blob.key.tp == 2 and prefill:
            raise AicDataGap(f"{blob.key}: GEMM perf data missing")

    monkeypatch.setattr(timing_probe, "probe", probe)
    drops = []
    pool = pool_of(QWEN3, "disagg", 4, "vllm", on_drop=drops.append)
    assert probed == [(1, True, False), (2, True, False), (2, False, True)]
    assert {role: {workers.shape.tp for workers in column} for role, column in columns(pool).items()} == {
        "prefill": {1},
        "decode": {2},
    }
    (drop,) = drops
    expected = (ParallelShape(2, 1, 1, 1), "prefill", Reason.DATA_GAP, "GEMM perf data missing")
    assert (drop.shape, drop.role, drop.category, drop.reason) == expected


def columns(pool):
    return {role: [role_pools(config)[role] for config in pool] for role in ("prefill", "decode")}


def test_aggregated_workers_are_probed_in_both_phases(fake_capacity, monkeypatch):
    probed = []
    monkeypatch.setattr(timing_probe, "probe", lambda blob, prefill, decode: probed.append((prefill, decode)))
    pool_of(QWEN3, "agg", 1, "vllm")
    assert probed == [(True, True)]


def test_without_an_estimator_the_filter_is_skipped_with_one_warning(monkeypatch):
    monkeypatch.setattr(model_hw, "estimator_missing_reason", lambda: "the estimator is absent")
    model_hw._warn_estimator_missing.cache_clear()
    with pytest.warns(UserWarning, match="the estimator is absent") as caught:
        first = pool_of(QWEN3, "agg", 2, "vllm", max_seq_len=10**9)
        pool_of(QWEN3, "agg", 2, "vllm", max_seq_len=10**9)
    model_hw._warn_estimator_missing.cache_clear()
    assert len(first) == 3
    assert len(caught) == 1


def test_single_gpu_moe_behind_its_flag():
    small = ("Qwen/Qwen3-30B-A3B", "h200_sxm")
    pool = pool_of(small, "agg", 1, "vllm", max_seq_len=8192, include_single_gpu_moe=True)
    assert [config.shape for config in pool] == [ParallelShape(1, 1, 1, 1)]
