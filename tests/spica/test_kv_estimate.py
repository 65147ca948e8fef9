"""KV estimates per shape (spec 05 section 4.4); AIC itself is replaced here."""

from __future__ import annotations

import pytest

from aisimulate.core.errors import InputError, TimingError
from aisimulate.spica import kv_estimate
from aisimulate.spica.kv_estimate import (
    NoPerfDatabase,
    estimate_kv_tokens,
    feasible_shape_tokens,
    memory_fraction_kind,
    resolve_backend_version,
    shape_engine_key,
)
from aisimulate.spica.outcome import Reason
from aisimulate.spica.parallel_enum import ParallelShape
from aisimulate.timing.aic.errors import NoKvBudget, ShapeNotViable

TEP4 = ParallelShape(4, 1, 1, 4)
DEP4 = ParallelShape(1, 4, 1, 4)
TEP2 = ParallelShape(2, 1, 1, 2)
TP2 = ParallelShape(2, 1, 1, 1)
ENGINE = {"model_name": "Qwen/Qwen3-32B", "hardware_sku": "h200_sxm", "backend": "vllm"}


def test_memory_fraction_kind():
    kinds = [memory_fraction_kind(name) for name in ("vllm", "sglang", "trtllm")]
    assert kinds == ["of_total", "of_total", "of_free"]
    with pytest.raises(InputError, match="did you mean 'vllm'"):
        memory_fraction_kind("vlm")


def test_backend_version_is_resolved_to_a_literal():
    assert resolve_backend_version("h200_sxm", "vllm") == "0.24.0"
    assert resolve_backend_version("h200_sxm", "vllm", "current") == "0.24.0"
    with pytest.raises(NoPerfDatabase, match="no performance data for vllm on a30"):
        resolve_backend_version("a30", "vllm")
    with pytest.raises(InputError, match=r"'0\.19\.0' is not available"):
        resolve_backend_version("h200_sxm", "vllm", "0.19.0")


@pytest.mark.parametrize("error", [NoKvBudget("no KV budget"), ShapeNotViable("ep size cannot be larger")])
def test_a_shape_that_cannot_run_has_no_estimate(monkeypatch, error):
    monkeypatch.setattr(kv_estimate, "kv_tokens", raising(error))
    assert estimate_kv_tokens(TP2, **ENGINE, backend_version="current") is None


def test_other_errors_propagate(monkeypatch):
    monkeypatch.setattr(kv_estimate, "kv_tokens", raising(TimingError("something else")))
    with pytest.raises(TimingError, match="something else"):
        estimate_kv_tokens(TP2, **ENGINE, backend_version="current")


def raising(error):
    def fail(*_args, **_knobs):
        raise error

    return fail


def test_the_estimate_is_asked_with_the_candidates_knobs(monkeypatch):
    asked = {}

    def kv_tokens(key, **knobs):
        asked.update(knobs, key=key)
        return 7

    monkeypatch.setattr(kv_estimate, "kv_tokens", kv_tokens)
    trtllm = {**ENGINE, "backend": "trtllm"}
    estimated = estimate_kv_tokens(
        TP2, **trtllm, backend_version="current", max_num_tokens=16384, memory_fraction=0.8
    )
    assert estimated == 7
    assert (asked["key"].tp, asked["key"].moe_tp, asked["key"].backend_version) == (2, None, "1.3.0rc20")
    knobs = (asked["max_num_tokens"], asked["memory_fraction"], asked["memory_fraction_kind"])
    assert knobs == (16384, 0.8, "of_free")


def test_engine_key_carries_the_expert_sizes():
    moe = {**ENGINE, "model_name": "deepseek-ai/DeepSeek-V3"}
    key = shape_engine_key(DEP4, **moe, backend_version="0.24.0")
    assert (key.tp, key.attention_dp, key.moe_tp, key.moe_ep) == (1, 4, 1, 4)


def test_feasible_shapes_are_estimated_once_and_kept_above_the_length(monkeypatch):
    asked = []

    def kv_tokens(key, **_knobs):
        asked.append(key)
        return key.tp * 10_000

    monkeypatch.setattr(kv_estimate, "kv_tokens", kv_tokens)
    shapes = [DEP4, TEP2, TEP4, TP2, TEP4, DEP4]
    assert feasible_shape_tokens(shapes, **ENGINE, max_seq_len=25_000) == {TEP4: 40_000}
    distinct = [DEP4, TEP2, TEP4, TP2]
    assert asked == [shape_engine_key(shape, **ENGINE, backend_version="0.24.0") for shape in distinct]


def test_the_length_must_be_exceeded(monkeypatch):
    monkeypatch.setattr(kv_estimate, "kv_tokens", lambda key, **_: key.tp * 10_000)
    assert feasible_shape_tokens([TP2], **ENGINE, max_seq_len=20_000) == {}
    assert feasible_shape_tokens([TP2], **ENGINE, max_seq_len=19_999) == {TP2: 20_000}


def test_max_seq_len_is_required():
    with pytest.raises(ValueError, match="max_seq_len is required"):
        feasible_shape_tokens([TP2], **ENGINE, max_seq_len=None)


@pytest.mark.parametrize(
    ("error", "category", "reason"),
    [
        (NoKvBudget("x"), Reason.KV_CAPACITY, "no memory for KV cache"),
        (ShapeNotViable("num_heads 64 should be divisible"), Reason.SHAPE_NOT_VIABLE, "num_heads 64"),
    ],
)
def test_dropped_shapes_carry_a_category_and_a_reason(monkeypatch, error, category, reason):
    monkeypatch.setattr(kv_estimate, "kv_tokens", raising(error))
    drops = []
    kept = feasible_shape_tokens([TP2], **ENGINE, max_seq_len=1, role="decode", on_drop=drops.append)
    assert kept == {}
    (drop,) = drops
    assert (drop.shape, drop.role, drop.category) == (TP2, "decode", category)
    assert reason in drop.reason


def test_a_shape_too_small_says_for_which_length(monkeypatch):
    monkeypatch.setattr(kv_estimate, "kv_tokens", lambda key, **_: 100)
    drops = []
    feasible_shape_tokens([TP2], **ENGINE, max_seq_len=4096, on_drop=drops.append)
    assert (drops[0].category, "4096 tokens" in drops[0].reason) == (Reason.KV_CAPACITY, True)
