"""Deployment plans and their dedupe key (spec 05 section 10.1, D4, D23)."""

import dataclasses
import json
from pathlib import Path

import pytest
from sample_cases import CASES, unrolled

from aisimulate.spica.config import SLATarget
from aisimulate.spica.deploy import build_deployment, plan_key

DATA = Path(__file__).parents[1] / "data" / "search" / "deploy_cases.json"
DEPLOYS = {case["id"]: case for case in json.loads(DATA.read_text())["cases"]}
_DENSE = {"shape": {"tp": 2, "dp": 1, "moe_tp": 1, "moe_ep": 1, "pp": 1}, "replicas": 4}
_SPACE = {"model_name": "acme/model-a", "hardware_sku": "h200_sxm"}


def _moe(tp, dp, moe_tp, moe_ep, replicas):
    shape = {"tp": tp, "dp": dp, "moe_tp": moe_tp, "moe_ep": moe_ep, "pp": 1}
    return {"shape": shape, "replicas": replicas}


def _selection(mode, backend, **knobs):
    role_knobs = {
        "agg": {"agg_max_num_batched_tokens": 8192, "agg_max_num_seqs": 256},
        "disagg": {
            "prefill_max_num_batched_tokens": 16384,
            "prefill_max_num_seqs": 8,
            "decode_max_num_batched_tokens": 8192,
            "decode_max_num_seqs": 512,
        },
    }
    return {
        "deployment_mode": mode,
        "backend": backend,
        "router_mode": "round_robin",
        "planner_fpm_sampling": "default",
        "planner_load_sensitivity": "default",
        **role_knobs[mode],
        **knobs,
    }


# Samples of three stored deployments whose own sample is not stored; written from the rules.
OWN_SAMPLES = {
    "agg_rr_hybrid_constant": {
        "search_space": _SPACE,
        "selection": _selection("agg", "vllm", planner_scaling_policy="hybrid_180_5"),
        "parallel_config": _DENSE,
        "load_predictor_best_by_interval": {"180": "constant_last"},
    },
    "agg_rr_custom_dicts": {
        "search_space": _SPACE,
        "selection": _selection(
            "agg",
            "vllm",
            planner_scaling_policy={
                "enable_throughput_scaling": True,
                "enable_load_scaling": True,
                "throughput_adjustment_interval_seconds": 120,
                "load_adjustment_interval_seconds": 10,
            },
            planner_fpm_sampling={"max_num_fpm_samples": 100, "fpm_sample_bucket_size": 25},
            planner_load_sensitivity={"load_scaling_down_sensitivity": 60, "load_min_observations": 4},
        ),
        "parallel_config": _moe(4, 1, 1, 4, 8),
        "load_predictor_best_by_interval": {
            "120": {"load_predictor": "kalman", "load_predictor_log1p": True, "kalman_q_trend": 0.5}
        },
    },
    "disagg_rr_hybrid_arima": {
        "search_space": _SPACE | {"startup_time": 45.0},
        "selection": _selection("disagg", "sglang", planner_scaling_policy="hybrid_600_5"),
        "parallel_config": {"prefill": _moe(1, 8, 1, 8, 2), "decode": _moe(1, 8, 8, 1, 6)},
        "load_predictor_best_by_interval": {"600": "arima_log1p"},
    },
}


def plan_of(name, **changes):
    case = DEPLOYS[name]
    sample = unrolled((OWN_SAMPLES | CASES)[case["sample_case"]]) | changes
    return build_deployment(
        sample,
        backend_version=case["backend_version"],
        optimization_target=case["optimization_target"],
        planner_sla=case["planner_sla"],
    )


def key_of(plan, **changes):
    return plan_key(
        plan, **({"in_flight_cap": None, "request_count": 5, "seed": 1, "trace_digest": "d"} | changes)
    )


@pytest.mark.parametrize("name", DEPLOYS)
def test_stored_plans(name):
    plan = dataclasses.asdict(plan_of(name))
    del plan["max_model_len"]
    assert plan == DEPLOYS[name]["expected"]


def test_own_samples_have_the_stated_number_of_keys():
    assert {name: len(unrolled(case)) for name, case in OWN_SAMPLES.items()} == {
        "agg_rr_hybrid_constant": 40,
        "agg_rr_custom_dicts": 44,
        "disagg_rr_hybrid_arima": 52,
    }


def test_context_length_bounds_every_role():
    assert plan_of("agg_kv_throughput_prophet").max_model_len == 131072
    assert plan_of("disagg_kv_disabled").max_model_len == 4096
    assert plan_of("agg_rr_load").max_model_len is None


def test_a_sample_without_router_is_round_robin():
    sample = {key: value for key, value in unrolled(CASES["agg_rr_disabled"]).items() if key != "router_mode"}
    plan = build_deployment(sample, backend_version="1")
    assert (plan.router_mode, plan.router_config) == ("round_robin", None)


def test_offload_reaches_the_roles_that_prefill():
    args = build_deployment(unrolled(CASES["agg_kv_offload"]), backend_version="1").agg_engine_args
    assert {name: args[name] for name in args if name not in plan_of("agg_rr_load").agg_engine_args} == {
        "num_g2_blocks": 2048,
        "kv_bytes_per_token": 65536,
        "bandwidth_g1_to_g2_gbps": 50.0,
        "offload_batch_size": 16,
    }


@pytest.mark.parametrize("sla", [{"e2e_ms": 900.0}, SLATarget(e2e_ms=900), {"ttft_ms": 5.0}])
def test_an_sla_planner_needs_both_token_bounds(sla):
    sample = unrolled(CASES["agg_rr_throughput_no_winner"])
    with pytest.raises(ValueError, match=r"ttft_ms and itl_ms"):
        build_deployment(sample, backend_version="1", planner_sla=sla)
    build_deployment(sample, backend_version="1", optimization_target="throughput", planner_sla=sla)
    build_deployment(unrolled(CASES["agg_rr_disabled"]), backend_version="1", planner_sla=sla)


def test_an_sla_model_works_like_a_mapping():
    sample = unrolled(CASES["agg_rr_throughput_no_winner"])
    sla = SLATarget(ttft_ms=5, itl_ms=2)
    config = build_deployment(sample, backend_version="1", planner_sla=sla).planner_config
    assert (config["ttft_ms"], config["itl_ms"]) == (5.0, 2.0)
    assert "ttft_ms" not in build_deployment(sample, backend_version="1").planner_config


def test_key_is_canonical_json_of_everything_a_replay_reads():
    plan = plan_of("disagg_kv_disabled")
    key = key_of(plan)
    assert json.dumps(json.loads(key), sort_keys=True, separators=(",", ":")) == key
    assert key == key_of(plan_of("disagg_kv_disabled"))
    for change in (
        {"in_flight_cap": 3},
        {"request_count": 6},
        {"seed": 2},
        {"trace_digest": "e"},
    ):
        assert key_of(plan, **change) != key


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("agg_rr_disabled", "agg_max_num_seqs", 512),
        ("agg_rr_disabled", "replicas", 5),
        ("agg_rr_disabled", "context_length", 4096),
        ("agg_rr_disabled", "agg_enable_prefix_caching", False),
        ("agg_kv_disabled", "router_temperature", 0.5),
        ("disagg_kv_disabled", "decode_replicas", 1),
        ("agg_rr_load", "load_adjustment_interval_seconds", 7),
        ("agg_rr_load", "min_endpoint", 3),
    ],
)
def test_key_tells_effective_settings_apart(name, field, value):
    sample = unrolled(CASES[name])
    keys = {
        key_of(build_deployment(given, backend_version="1", optimization_target="throughput"))
        for given in (sample, sample | {field: value})
    }
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_num_fpm_samples", 7),
        ("fpm_sample_bucket_size", 25),
        ("load_scaling_down_sensitivity", 12),
        ("load_min_observations", 2),
        ("throughput_adjustment_interval_seconds", 900),
    ],
)
@pytest.mark.parametrize(("target", "distinct"), [("throughput", 1), ("latency", 1), ("sla", 2)])
def test_an_easy_planner_shares_keys_over_settings_it_never_reads(field, value, target, distinct):
    sample = unrolled(CASES["agg_rr_load"])
    keys = {
        key_of(build_deployment(given, backend_version="1", optimization_target=target))
        for given in (sample, sample | {field: value})
    }
    assert len(keys) == distinct


def test_plans_are_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan_of("agg_rr_load").num_workers = 3
