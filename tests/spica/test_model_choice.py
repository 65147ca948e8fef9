"""One-GPU workers of a mixture of experts, pins that are in no pool, and models that are not bundled."""

from __future__ import annotations

import io
import shutil
import urllib.request
from pathlib import Path

import aiconfigurator_core
import pytest
from spica_walk import EXPERTS, PINNED, changed, look

from aisimulate.core.errors import InputError
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.kv_load import InfeasibleKVCapacity, check_kv_capacity
from aisimulate.spica.parallel_enum import describe_config
from aisimulate.spica.plan import plan_search
from aisimulate.timing.aic import names

MOE = "Qwen/Qwen3-30B-A3B"
HINT = "one-GPU workers are not tried; set search_space.include_single_gpu_moe: true"
CONFIGS = Path(aiconfigurator_core.__file__).parent / "model_configs"


def planned(base=EXPERTS, **space):
    changes = {f"search_space.{name}": value for name, value in space.items()}
    return plan_search(SmartSearchConfig.model_validate(changed(base, changes)))


def refused(base=EXPERTS, **space):
    with pytest.raises(InputError) as caught:
        planned(base, **space)
    text = str(caught.value)
    assert "\n" not in text
    return text


def labels(plan):
    return [describe_config(config) for config in plan.branches[0].parallel_configs]


# Mixtures of experts ------------------------------------------------------------------------------------


def test_one_gpu_workers_are_off_unless_asked_for_and_missed_in_a_note():
    plan = planned()
    assert labels(plan) == ["1xDEP2", "1xDTP2", "1xTEP2", "1xTP2"]
    assert plan.notes == [f"{MOE} is a mixture of experts: {HINT}"]


def test_one_gpu_workers_on_request():
    plan = planned(include_single_gpu_moe=True)
    assert labels(plan) == ["1xTP1", "2xTP1", "1xDEP2", "1xDTP2", "1xTEP2", "1xTP2"]
    assert plan.notes == []


def test_implausible_data_are_told_once_before_the_search():
    plan = planned(model_name="Qwen/Qwen3-30B-A3B-FP8", deployment_mode=["agg", "disagg"], gpu_budget=8)
    assert len([note for note in plan.notes if "block-fp8 weights are slower than bfloat16" in note]) == 1
    own = plan_search(plan.config, capabilities=None)  # an evaluator of the user's own has other data
    assert not [note for note in own.notes if "block-fp8" in note]


def test_no_note_where_one_gpu_cannot_hold_the_weights():
    plan = planned(model_name="deepseek-ai/DeepSeek-V3", hardware_sku="b200_sxm", gpu_budget=8)
    assert [note for note in plan.notes if "include_single_gpu_moe" in note] == []


def test_a_budget_of_one_gpu_says_the_real_reason():
    text = refused(gpu_budget=1)
    assert f"within 1 GPU: no worker fits, because {MOE} is a mixture of experts, and {HINT}" in text
    assert labels(planned(gpu_budget=1, include_single_gpu_moe=True)) == ["1xTP1"]


def test_a_one_gpu_pin_of_a_mixture_of_experts_runs_when_on(monkeypatch):
    pin = {"parallel_configs": [{"tp": 1}]}
    assert f"1xTP1 ({MOE} is a mixture of experts, and {HINT})" in refused(**pin)
    pinned = {f"search_space.{name}": value for name, value in pin.items()}
    config = changed(EXPERTS, {**pinned, "search_space.include_single_gpu_moe": True})
    result = look(config, monkeypatch).result
    assert [candidate.config["tp"] for candidate in result.candidates] == [1]


# Pins ---------------------------------------------------------------------------------------------------

MOE_ON_2 = (
    "a mixture of experts on 2 GPUs takes {tp: 1, attention_dp: 2, moe_ep: 2} or "
    "{tp: 1, attention_dp: 2, moe_tp: 2} or {tp: 2, moe_ep: 2} or {tp: 2, moe_tp: 2}"
)


@pytest.mark.parametrize(
    ("base", "pin", "problem"),
    [
        (PINNED, {"tp": 3}, "1xTP3 (tp x attention_dp must be one of 1, 2, 4, 8, 16, not 3)"),
        (PINNED, {"tp": 2, "replicas": 2}, "2xTP2 (it takes 4 GPUs, but gpu_budget is 2)"),
        (PINNED, {"tp": 1, "pp": 2}, "1xtp1-dp1-moe_tp1-moe_ep1-pp2 (pp must be 1, not 2)"),
        (PINNED, {"tp": 2, "moe_ep": 2}, "1xTEP2 (a dense model on 2 GPUs takes {tp: 2})"),
        (EXPERTS, {"tp": 2}, f"1xTP2 ({MOE_ON_2})"),
        (EXPERTS, {"tp": 2, "moe_ep": 4}, "1xTEP2 (tp x attention_dp = 2, but moe_tp x moe_ep = 4)"),
    ],
)
def test_an_illegal_pin_is_told_the_legal_values(base, pin, problem):
    text = refused(base, parallel_configs=[pin])
    assert text.endswith(f"legal/KV-feasible for no configured backend: {problem}")
    assert text.startswith("search_space.parallel_configs: ")


def test_a_pin_below_the_least_budget():
    text = refused(PINNED, min_gpu_budget=2)
    assert text.endswith("1xTP1 (it takes 1 GPU, but min_gpu_budget is 2)")


def test_a_pin_without_room_for_a_sequence_hints_at_the_context_length():
    text = refused(PINNED, agg_gpu_memory_utilization=0.2)
    assert (
        "1xTP1 (agg/vllm: agg shapes TP1 dropped: KV capacity of a rank does not exceed 131072 tokens (the "
        "model's maximum; set search_space.context_length if you serve shorter sequences)"
    ) in text
    assert labels(planned(PINNED, agg_gpu_memory_utilization=0.2, context_length=32_768)) == ["1xTP1"]


def test_the_capacity_check_of_a_candidate_speaks_english(monkeypatch):
    sample = {"model_name": MOE, "context_length": None, "hardware_sku": "x", "backend": "vllm"}
    sample |= {"agg_max_num_batched_tokens": 1, "agg_max_num_seqs": 1, "agg_gpu_memory_utilization": 0.9}
    monkeypatch.setattr("aisimulate.spica.kv_load.estimate_kv_tokens", lambda *_, **__: 10)
    plan = planned(gpu_budget=2)
    config = SmartSearchConfig.model_validate(EXPERTS)
    with pytest.raises(InfeasibleKVCapacity) as caught:
        check_kv_capacity(
            sample,
            workload=config.workload,
            parallel_config=plan.branches[0].parallel_configs[0],
            backend_version="1",
        )
    assert str(caught.value) == (
        "an agg rank's 10 KV tokens cannot hold a sequence of 40960 tokens (the model's maximum; set "
        "search_space.context_length if you serve shorter sequences)"
    )


# Models -------------------------------------------------------------------------------------------------


def test_an_unbundled_model_names_the_field_and_the_ways_out():
    assert refused(PINNED, model_name="nobody/nothing") == (
        "search_space.model_name: 'nobody/nothing' is not bundled, and there is no such folder; give a "
        "folder that holds the model's config.json, or set search_space.allow_model_download: true to fetch "
        "that file from Hugging Face"
    )


def test_a_model_in_a_folder_is_searched_in_silence(tmp_path, monkeypatch, capfd):
    shutil.copy(CONFIGS / "meta-llama--Meta-Llama-3.1-8B_config.json", tmp_path / "config.json")
    # First, for the SDK speaks when it reads its tables.
    local = look(changed(PINNED, {"search_space.model_name": str(tmp_path)}), monkeypatch)
    bundled = look(PINNED, monkeypatch)
    assert local.metrics == bundled.metrics
    assert capfd.readouterr().err == ""


@pytest.fixture
def network(monkeypatch):
    """Feign a network that has one model, and count the requests."""
    calls = []
    text = (CONFIGS / "meta-llama--Meta-Llama-3.1-8B_config.json").read_bytes()

    def urlopen(request, **_):
        calls.append(request.full_url)
        if request.full_url.endswith("/config.json"):
            return io.BytesIO(text)
        raise urllib.request.HTTPError(request.full_url, 404, "not found", None, None)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    names.model_facts.cache_clear()
    yield calls
    names.model_facts.cache_clear()


def test_a_download_is_made_only_when_allowed_and_reaches_every_replay(network, monkeypatch):
    refused(PINNED, model_name="someone/tiny")
    assert network == []
    changes = {"search_space.model_name": "someone/tiny", "search_space.allow_model_download": True}
    found = look(changed(PINNED, changes), monkeypatch)
    assert any("someone/tiny" in url for url in network)
    assert found.metrics == look(PINNED, monkeypatch).metrics
    timing = found.payloads[0]["spec"]["engine"]["rank"]["timing_model"]["config"]
    assert (timing["model"], timing["allow_model_download"]) == ("someone/tiny", True)


# Block sizes --------------------------------------------------------------------------------------------


def test_a_block_size_that_vllm_does_not_take_is_noted():
    assert planned(PINNED, agg_block_size=7).notes == [
        "agg_block_size: 7 is simulated as it is, but vllm itself takes 1, 8, 16, 32, 64, 128, 256"
    ]
    assert planned(PINNED, agg_block_size=16).notes == []
