"""Health of performance data: what contradicts itself is flagged, and nothing else is."""

from __future__ import annotations

import re

import pytest

from aisimulate.timing.aic import health
from aisimulate.timing.aic.engine import engine_key
from aisimulate.timing.aic.health import GRADES, Confidence, Finding, engine_confidence, reaches

MOST, LONGEST = 8192, 9216
MINIMAX = "MiniMaxAI/MiniMax-M2.5"


def confidence(model, system, backend, tokens=MOST, **fields):
    return engine_confidence(engine_key(model, system, backend, None, **fields), tokens, LONGEST)


@pytest.mark.parametrize(
    ("system", "shape"),
    [
        ("b200_sxm", {"tp": 4, "moe_tp": 4, "moe_ep": 1}),
        ("h100_sxm", {"tp": 4, "moe_tp": 1, "moe_ep": 4}),
        ("h200_sxm", {"tp": 4, "moe_tp": 4, "moe_ep": 1}),
    ],
)
def test_minimax_fp8_on_vllm_is_flagged(system, shape):
    found = confidence(MINIMAX, system, "vllm", **shape)
    assert found.grade == "low"
    assert "fp8_block weights" in found.implausible[0]
    assert "not physical" in found.implausible[0]


@pytest.mark.parametrize(
    ("model", "system", "backend", "fields"),
    [
        (MINIMAX, "b200_sxm", "sglang", {"tp": 4, "moe_tp": 4, "moe_ep": 1}),
        ("nvidia/MiniMax-M2.5-NVFP4", "b200_sxm", "vllm", {"tp": 4, "moe_tp": 4, "moe_ep": 1}),
        ("nvidia/Kimi-K2.5-NVFP4", "b200_sxm", "vllm", {"tp": 4, "moe_tp": 4, "moe_ep": 1}),
        ("meta-llama/Meta-Llama-3.1-8B", "h200_sxm", "vllm", {}),
        ("meta-llama/Meta-Llama-3.1-70B", "b200_sxm", "trtllm", {"tp": 8, "gemm_dtype": "nvfp4"}),
        ("meta-llama/Meta-Llama-3.1-8B", "h200_sxm", "trtllm", {"tp": 8, "gemm_dtype": "fp8"}),
        ("Qwen/Qwen3-32B-FP8", "h100_sxm", "trtllm", {"tp": 4}),
    ],
)
def test_other_data_are_not(model, system, backend, fields):
    found = confidence(model, system, backend, **fields)
    assert not found.implausible
    assert found.grade == "high"


def test_formulas_and_replaced_types_are_medium():
    formulas = confidence("nvidia/Llama-3.1-70B-Instruct-FP8", "h200_sxm", "vllm", tp=4)
    assert formulas.grade == "medium"
    assert any("from formulas" in reason for reason in formulas.reasons)
    replaced = confidence("deepseek-ai/DeepSeek-V3", "h200_sxm", "sglang", tp=8, moe_tp=8, moe_ep=1)
    assert replaced.grade == "medium"
    assert any("bfloat16 data are used" in reason for reason in replaced.reasons)


def test_a_neighbour_that_is_faster_is_told():
    found = confidence("openai/gpt-oss-120b", "b200_sxm", "trtllm", tp=1, moe_tp=1, moe_ep=1)
    assert found.grade == "medium"
    assert "slower than w4a8_mxfp4_mxfp8" in found.reasons[0]
    other = confidence(
        "openai/gpt-oss-120b", "b200_sxm", "trtllm", tp=1, moe_tp=1, moe_ep=1, moe_dtype="w4a8_mxfp4_mxfp8"
    )
    assert not any("slower" in reason for reason in other.reasons)


def test_steps_above_those_of_more_bits_are_told(monkeypatch):
    shape = {"tp": 1, "gemm_dtype": "nvfp4", "kv_cache_dtype": "fp8"}
    key = engine_key("meta-llama/Meta-Llama-3.1-70B", "b200_sxm", "trtllm", None, **shape)
    assert not any("decode steps on" in reason for reason in engine_confidence(key, MOST).reasons)
    monkeypatch.setattr(health, "ABOVE", 1.05)
    (told,) = health._above_neighbours(key)
    assert (told.grade, told.implausible) == ("medium", False)
    assert re.fullmatch(
        r"decode steps on nvfp4 weights 1\.1 times those on fp8_\w+: check gemm_dtype", told.text
    )
    plain = engine_key("meta-llama/Meta-Llama-3.1-70B", "b200_sxm", "trtllm", None, tp=1)
    assert not list(health._above_neighbours(plain))


def test_what_lies_outside_the_grid_counts_by_how_far():
    key = {"model": "meta-llama/Meta-Llama-3.1-8B", "system": "h200_sxm", "backend": "vllm"}
    assert confidence(**key).grade == "high"
    assert confidence(**key, tokens=65_536).grade == "medium"
    assert confidence(**key, tokens=1_048_576).grade == "low"
    far = engine_confidence(engine_key(*key.values(), None), MOST, 100_000_000)
    assert far.grade == "low"
    assert any("length up to 100000000" in reason for reason in far.reasons)


def test_grades_are_ordered_and_add_up():
    low, medium = Finding("low", "a", implausible=True), Finding("medium", "b")
    both = Confidence((medium,)) | Confidence((low,))
    assert (both.grade, both.reasons, both.implausible) == ("low", ("a", "b"), ("a",))
    assert Confidence().grade == "high"
    assert [reaches(grade, "medium") for grade in GRADES] == [False, True, True]
