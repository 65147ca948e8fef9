"""Branches and their knobs (spec 05 section 5); pools are injected."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest

from aisimulate.core.errors import InputError
from aisimulate.replay.capabilities import CURRENT
from aisimulate.spica import search_space
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.dropped_shapes import DroppedShape
from aisimulate.spica.kv_estimate import NoPerfDatabase, RoleKnobs
from aisimulate.spica.model_hw import NoTimingData, NoViableParallelConfig
from aisimulate.spica.outcome import Reason
from aisimulate.spica.parallel_enum import (
    DisaggParallelConfig,
    ParallelShape,
    ReplicaParallelConfig,
    enumerate_disagg_configs,
    enumerate_parallel_configs,
)
from aisimulate.spica.search_space import branch_knob_choices, enumerate_branches

KV_WEIGHTS = ["overlap_score_credit", "prefill_load_scale", "router_temperature"]
TP2X1 = ReplicaParallelConfig(ParallelShape(2, 1, 1, 1), 1)
TP1X2 = ReplicaParallelConfig(ParallelShape(1, 1, 1, 1), 2)


def make(workload=None, goal=None, **space):
    data = {
        "search_space": {"model_name": "m", "hardware_sku": "s", "gpu_budget": 8, **space},
        "workload": workload or {"isl": 100, "osl": 10, "concurrency": 4, "num_request_ratio": 2},
    }
    return SmartSearchConfig.model_validate(data | ({"goal": goal} if goal else {}))


@pytest.fixture
def pools(monkeypatch):
    """Replace the pool function: by (mode, backend), by backend, or dense enumeration; records calls."""
    calls = []

    def install(answers=None):
        def parallel_configs_for(model_name, hardware_sku, **request):
            calls.append(request)
            mode, backend = request["deployment_mode"], request["backend"]
            answer = (answers or {}).get((mode, backend), (answers or {}).get(backend))
            if isinstance(answer, Exception):
                raise answer
            return dense(mode, backend, request["gpu_budget"]) if answer is None else answer

        monkeypatch.setattr(search_space, "parallel_configs_for", parallel_configs_for)
        return calls

    return install


def dense(mode, backend, budget):
    enumerate_pool = enumerate_disagg_configs if mode == "disagg" else enumerate_parallel_configs
    return enumerate_pool(is_moe=False, backend=backend, gpu_budget=budget)


def knobs(mode, **space):
    return list(branch_knob_choices(make(**space).search_space, mode))


# Knobs ------------------------------------------------------------------------------------------------


def test_default_knobs_in_order():
    planner = ["planner_scaling_policy", "planner_fpm_sampling", "planner_load_sensitivity"]
    engine = ["agg_max_num_batched_tokens", "agg_max_num_seqs"]
    assert knobs("agg") == ["router_mode", *KV_WEIGHTS, *planner, *engine]
    assert knobs("disagg")[-4:] == [
        "prefill_max_num_batched_tokens",
        "prefill_max_num_seqs",
        "decode_max_num_batched_tokens",
        "decode_max_num_seqs",
    ]
    choices = branch_knob_choices(make().search_space, "agg")
    assert choices["agg_max_num_seqs"] == [256, 512, 1024]
    assert choices["router_mode"] == ["kv_router", "round_robin"]


def test_host_weights_need_offload():
    offload = knobs("agg", num_g2_blocks=10, kv_bytes_per_token=100)
    assert offload[:6] == [
        "router_mode",
        "overlap_score_credit",
        "prefill_load_scale",
        "host_cache_hit_weight",
        "disk_cache_hit_weight",
        "router_temperature",
    ]


def test_round_robin_alone_has_no_weights():
    assert [k for k in knobs("agg", router_mode=["round_robin"]) if "router" in k] == ["router_mode"]
    assert not set(KV_WEIGHTS) & set(knobs("agg", router_mode=["round_robin"]))


OFF = {
    "enable_throughput_scaling": False,
    "enable_load_scaling": False,
    "throughput_adjustment_interval_seconds": None,
    "load_adjustment_interval_seconds": None,
}


@pytest.mark.parametrize(
    ("policies", "details"), [(["disabled"], False), (["disabled", OFF], False), ([OFF, "load_180_5"], True)]
)
def test_planner_details_need_a_loop(policies, details):
    names = knobs("agg", planner_scaling_policy=policies)
    assert ("planner_fpm_sampling" in names and "planner_load_sensitivity" in names) is details
    assert branch_knob_choices(make(planner_scaling_policy=policies).search_space, "agg")[
        "planner_scaling_policy"
    ] == (policies if details else ["disabled"])


# Branches ---------------------------------------------------------------------------------------------


def test_one_branch_per_mode_in_listed_order(pools):
    pools()
    branches = enumerate_branches(make(deployment_mode=["disagg", "agg"]))
    assert [branch.deployment_mode for branch in branches] == ["disagg", "agg"]
    assert [len(branch.parallel_configs) for branch in branches] == [71, 15]
    assert all(isinstance(config, DisaggParallelConfig) for config in branches[0].parallel_configs)
    assert branches[1].gpu_budget == 8
    assert list(branches[1].knob_choices)[-1] == "backend"
    assert branches[1].knob_choices["backend"] == ["vllm"]


def test_pool_is_a_union_in_first_seen_order(pools):
    pools({"vllm": [TP2X1], "sglang": [TP1X2, TP2X1]})
    (branch,) = enumerate_branches(make(deployment_mode=["agg"], backend=["vllm", "sglang"]))
    assert branch.parallel_configs == (TP2X1, TP1X2)
    assert branch.supported_backends == {
        TP2X1: frozenset({"vllm", "sglang"}),
        TP1X2: frozenset({"sglang"}),
    }
    assert branch.knob_choices["backend"] == ["vllm", "sglang"]


VLLM_PAIRS = replace(CURRENT, disaggregated_backends=frozenset({"vllm"}))


def test_what_replay_cannot_simulate_in_a_mode_is_never_enumerated_for_it(pools):
    calls = pools()
    disagg, agg = enumerate_branches(make(backend=["trtllm", "vllm"]), capabilities=VLLM_PAIRS)
    assert [(c["deployment_mode"], c["backend"]) for c in calls] == [
        ("disagg", "vllm"),
        ("agg", "trtllm"),
        ("agg", "vllm"),
    ]
    assert disagg.knob_choices["backend"] == ["vllm"]
    assert agg.knob_choices["backend"] == ["trtllm", "vllm"]
    assert disagg.notes == ("disagg/trtllm left out: Replay cannot simulate trtllm in disagg mode yet",)


def test_drafts_are_searched_in_disagg_where_that_is_declared(pools):
    calls = pools()
    undrafted = replace(CURRENT, disaggregated_speculation=False)
    with pytest.warns(UserWarning, match="vllm: Replay cannot simulate aic_nextn in disagg mode yet"):
        (agg,) = enumerate_branches(make(aic_nextn=1), capabilities=undrafted)
    assert (agg.deployment_mode, [call["deployment_mode"] for call in calls]) == ("agg", ["agg"])
    assert len(enumerate_branches(make(aic_nextn=1), capabilities=CURRENT)) == 2


@pytest.mark.parametrize(
    ("capabilities", "backends"),
    [(VLLM_PAIRS, ["vllm"]), (CURRENT, ["vllm", "sglang", "trtllm"]), (None, ["vllm", "sglang", "trtllm"])],
)
def test_pairs_are_searched_on_the_declared_backends(pools, capabilities, backends):
    pools()
    space = make(deployment_mode=["disagg"], backend=["vllm", "sglang", "trtllm"])
    (branch,) = enumerate_branches(space, capabilities=capabilities)
    assert branch.knob_choices["backend"] == backends


@pytest.mark.parametrize("error", [NoPerfDatabase("no data here"), NoViableParallelConfig("nothing fits")])
def test_a_backend_that_cannot_run_is_dropped_with_its_reason(pools, error):
    pools({"sglang": error})
    (branch,) = enumerate_branches(make(deployment_mode=["agg"], backend=["sglang", "vllm"]))
    assert branch.knob_choices["backend"] == ["vllm"]
    assert branch.notes == (f"agg/sglang left out: {error}",)


def test_other_errors_propagate(pools):
    pools({"sglang": InputError("unknown hardware_sku")})
    with pytest.raises(InputError, match="unknown hardware_sku"):
        enumerate_branches(make(deployment_mode=["agg"], backend=["sglang", "vllm"]))


def test_a_mode_without_backend_is_skipped_with_a_warning(pools):
    pools({("disagg", "vllm"): NoViableParallelConfig("too small")})
    with pytest.warns(UserWarning, match="'disagg' skipped") as caught:
        branches = enumerate_branches(make(backend=["vllm", "trtllm"]), capabilities=VLLM_PAIRS)
    assert [branch.deployment_mode for branch in branches] == ["agg"]
    text = str(caught[0].message)
    for part in ("8 GPUs", "vllm: too small", "trtllm: Replay cannot simulate"):
        assert part in text


@pytest.mark.filterwarnings("ignore:deployment_mode")
def test_no_mode_left_tells_every_reason(pools):
    pools({"vllm": NoViableParallelConfig("too small")})
    with pytest.raises(
        NoViableParallelConfig, match="no deployment_mode has a viable parallel config"
    ) as caught:
        enumerate_branches(make())
    assert "disagg skipped (vllm: too small); agg skipped (vllm: too small)" in str(caught.value)
    assert type(caught.value) is NoViableParallelConfig


@pytest.mark.filterwarnings("ignore:deployment_mode")
def test_want_of_data_is_a_class_of_its_own(pools):
    pools({"vllm": NoPerfDatabase("no rows"), "sglang": NoTimingData("no kernels")})
    with pytest.raises(NoTimingData, match="no rows"):
        enumerate_branches(make(deployment_mode=["agg"], backend=["vllm", "sglang"]))


def test_dropped_shapes_become_notes(monkeypatch):
    def parallel_configs_for(*_names, on_drop, **_request):
        on_drop(DroppedShape(ParallelShape(8, 1, 1, 1), "agg", Reason.DATA_GAP, "no GEMM rows"))
        return [TP2X1]

    monkeypatch.setattr(search_space, "parallel_configs_for", parallel_configs_for)
    (branch,) = enumerate_branches(make(deployment_mode=["agg"]))
    assert branch.notes == ("agg/vllm: agg shapes TP8 dropped: no GEMM rows [data_gap]",)


def test_what_the_pool_is_asked_for(pools):
    calls = pools()
    config = make(
        deployment_mode=["disagg"],
        context_length=2048,
        min_gpu_budget=4,
        prefill_max_num_batched_tokens=[32768, 16384],
        prefill_gpu_memory_utilization=0.8,
    )
    enumerate_branches(config)
    enumerate_branches(config, max_seq_len=512)
    assert [call["max_seq_len"] for call in calls] == [2048, 512]
    assert (calls[0]["gpu_budget"], calls[0]["min_gpu_budget"]) == (8, 4)
    assert calls[0]["role_knobs"] == {"prefill": RoleKnobs(16384, 0.8), "decode": RoleKnobs(8192, 0.9)}


# Pins -------------------------------------------------------------------------------------------------


def pinned(*entries, **space):
    return make(deployment_mode=["agg"], parallel_configs=list(entries), **space)


def test_pins_are_the_complete_menu_in_their_order(pools):
    pools()
    (branch,) = enumerate_branches(pinned({"tp": 2}, {"tp": 1, "replicas": 2}, {"tp": 2}))
    assert branch.parallel_configs == (TP2X1, TP1X2)


def test_disagg_pin(pools):
    pools()
    pin = {"prefill": {"tp": 1, "replicas": 2}, "decode": {"tp": 2}}
    (branch,) = enumerate_branches(make(deployment_mode=["disagg"], parallel_configs=[pin]))
    assert branch.parallel_configs == (DisaggParallelConfig(TP1X2, TP2X1),)


def test_a_backend_without_any_pin_is_dropped(pools):
    pools({"sglang": [TP1X2]})
    (branch,) = enumerate_branches(pinned({"tp": 2}, backend=["vllm", "sglang"]))
    assert branch.knob_choices["backend"] == ["vllm"]
    assert branch.notes == ("agg/sglang left out: no pinned config is in its pool",)


def test_a_partly_legal_pin_set_names_the_offenders(pools):
    pools()
    config = pinned({"tp": 2}, {"tp": 3}, {"tp": 2, "moe_ep": 4}, {"tp": 8, "replicas": 2})
    with pytest.raises(NoViableParallelConfig, match="legal/KV-feasible for no configured backend") as caught:
        enumerate_branches(config)
    text = str(caught.value)
    for part in ("1xTP3", "1xTEP2 (tp x attention_dp = 2, but moe_tp x moe_ep = 4)", "2xTP8"):
        assert part in text
    assert "1xTP2," not in text


@pytest.mark.parametrize("answer", [[TP1X2], NoViableParallelConfig("too small")])
def test_pins_that_no_backend_can_run(pools, answer):
    pools({"vllm": answer})
    with pytest.raises(NoViableParallelConfig, match="no configured backend can run the pinned"):
        enumerate_branches(pinned({"tp": 2}))


def test_pins_without_data(pools):
    pools({"vllm": NoPerfDatabase("no rows")})
    with pytest.raises(NoTimingData, match=r"no configured backend can run the pinned.*no rows"):
        enumerate_branches(pinned({"tp": 2}))


# Load -------------------------------------------------------------------------------------------------


def kv_load(ratio):
    return {"isl": 100, "osl": 10, "num_request_ratio": 2, "kv_load_ratio": ratio}


def test_a_scalar_kv_load_is_the_last_choice(pools):
    pools()
    (branch,) = enumerate_branches(make(kv_load(0.5), deployment_mode=["agg"]))
    assert list(branch.knob_choices)[-2:] == ["backend", "kv_load_ratio"]
    assert branch.knob_choices["kv_load_ratio"] == [0.5]
    assert branch.float_ranges == {}


def test_a_kv_load_range_is_continuous(pools):
    pools()
    (branch,) = enumerate_branches(make(kv_load([0.25, 1.0]), {"target": "pareto"}, deployment_mode=["agg"]))
    assert branch.float_ranges == {"kv_load_ratio": (0.25, 1.0)}
    assert "kv_load_ratio" not in branch.knob_choices


def test_kv_load_without_an_estimator_fails_before_enumeration(pools, monkeypatch):
    calls = pools()
    monkeypatch.setattr(search_space, "estimator_missing_reason", lambda: "module x is not installed")
    with pytest.raises(InputError, match=r"kv_load_ratio needs .* module x is not installed"):
        enumerate_branches(make(kv_load(0.5)))
    assert calls == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(enumerate_branches(make())) == 2


def test_end_to_end_with_real_data():
    config = make(
        model_name="Qwen/Qwen3-32B", hardware_sku="h200_sxm", deployment_mode=["agg"], context_length=8192
    )
    (branch,) = enumerate_branches(config)
    assert len(branch.parallel_configs) == 15
    assert branch.notes == ()
