"""`SearchSpace`: defaults, list knobs, composite entries, pins (spec 05 sections 1.2 to 1.5)."""

import pytest
from pydantic import ValidationError
from spica_configs import make_config

from aisimulate.config.messages import one_line
from aisimulate.spica.config import (
    COMPOSITE_DICT_KEYS,
    COMPOSITE_REQUIRED_KEYS,
    SEARCH_CHOICES,
    SmartSearchConfig,
)

POLICY = {
    "enable_throughput_scaling": True,
    "enable_load_scaling": True,
    "throughput_adjustment_interval_seconds": 120,
    "load_adjustment_interval_seconds": 10,
}


def space(**fields):
    return make_config(fields).search_space


def refusal(**fields):
    with pytest.raises(ValidationError) as caught:
        space(**fields)
    return str(caught.value)


def test_defaults():
    given = space()
    assert given.gpu_budget == 32
    assert (given.prefill_block_size, given.decode_block_size, given.agg_block_size) == (64, 64, 64)
    assert given.prefill_enable_prefix_caching and given.agg_enable_prefix_caching
    assert not given.decode_enable_prefix_caching
    assert given.deployment_mode == ["disagg", "agg"]
    assert given.backend == ["vllm"]
    assert given.prefill_max_num_seqs == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert given.prefill_load_scale == [0, 0.25, 0.5, 1, 2, 4, 8, 16, 32]
    assert len(given.load_predictor_candidates) == 11
    assert len(given.planner_scaling_policy) == 7
    assert given.parallel_configs == []


@pytest.mark.parametrize("knob", [knob for knob in SEARCH_CHOICES if knob != "backend"])
def test_a_knob_defaults_to_all_its_choices(knob):
    assert getattr(space(), knob) == list(SEARCH_CHOICES[knob])


@pytest.mark.parametrize("knob", SEARCH_CHOICES)
def test_rules_of_every_knob(knob):
    assert "must list at least one choice" in refusal(**{knob: []})
    message = refusal(**{knob: ["nothing like it"]})
    assert "invalid choice 'nothing like it'" in message
    assert str(SEARCH_CHOICES[knob][0]) in message
    assert "list" in refusal(**{knob: SEARCH_CHOICES[knob][0]})
    if knob in COMPOSITE_DICT_KEYS:
        assert "must not be empty" in refusal(**{knob: [{}]})
    else:
        assert "does not accept a dict entry" in refusal(**{knob: [{}]})


@pytest.mark.parametrize("knob", COMPOSITE_DICT_KEYS)
def test_dict_keys_of_every_composite(knob):
    message = refusal(**{knob: [{"zz": 1, "aa": 2}]})
    assert "unknown keys ['aa', 'zz']" in message
    assert str(sorted(COMPOSITE_DICT_KEYS[knob])) in message
    one_key = min(COMPOSITE_DICT_KEYS[knob] - {"load_predictor"})
    missing = sorted(COMPOSITE_REQUIRED_KEYS[knob] - {one_key})
    assert f"missing required keys {missing}" in refusal(**{knob: [{one_key: 1}]})


def test_choices_take_native_types():
    given = space(agg_max_num_seqs=[512.0], router_temperature=[0], prefill_load_scale=[4])
    assert [type(x) for x in given.agg_max_num_seqs] == [int]
    assert given.agg_max_num_seqs == [512]
    assert [type(x) for x in given.router_temperature + given.prefill_load_scale] == [float, float]


@pytest.mark.parametrize("entry", [True, "256", 255, None, [256]])
def test_no_other_value_passes_for_a_choice(entry):
    assert "invalid choice" in refusal(agg_max_num_seqs=[entry])


def test_true_is_not_the_choice_one():
    assert "invalid choice True" in refusal(prefill_max_num_seqs=[True])


def test_nearest_choice_is_named():
    assert "did you mean 'sglang'?" in refusal(backend=["sglag"])
    assert "did you mean 'hybrid_180_5'?" in refusal(planner_scaling_policy=["hybird_180_5"])


def test_repeats_are_dropped_in_order_and_noted():
    reordered = dict(reversed(POLICY.items())) | {"throughput_adjustment_interval_seconds": 120.0}
    given = space(agg_max_num_seqs=[512, 256, 512.0], planner_scaling_policy=[POLICY, "disabled", reordered])
    assert given.agg_max_num_seqs == [512, 256]
    assert given.planner_scaling_policy == [POLICY, "disabled"]
    assert given.notes == (
        "agg_max_num_seqs: 1 repeated choice(s) dropped",
        "planner_scaling_policy: 1 repeated choice(s) dropped",
    )
    assert space().notes == ()


def test_a_custom_policy_is_kept_as_given():
    assert space(planner_scaling_policy=[POLICY]).planner_scaling_policy == [POLICY]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"enable_throughput_scaling": "no"}, "enable_throughput_scaling"),
        ({"enable_load_scaling": 1}, "enable_load_scaling"),
        ({"throughput_adjustment_interval_seconds": 0}, "throughput_adjustment_interval_seconds"),
        ({"load_adjustment_interval_seconds": None}, "load_adjustment_interval_seconds"),
        ({"load_adjustment_interval_seconds": -1}, "load_adjustment_interval_seconds"),
        ({"load_adjustment_interval_seconds": 10**400}, "load_adjustment_interval_seconds"),
        ({"load_adjustment_interval_seconds": float("nan")}, "load_adjustment_interval_seconds"),
        ({"load_adjustment_interval_seconds": "5"}, "load_adjustment_interval_seconds"),
        ({"load_adjustment_interval_seconds": 120}, "below throughput_adjustment_interval_seconds"),
    ],
)
def test_policy_values(change, word):
    assert word in refusal(planner_scaling_policy=[POLICY | change])


@pytest.mark.parametrize(
    "change",
    [
        {"enable_throughput_scaling": False, "throughput_adjustment_interval_seconds": None},
        {"enable_load_scaling": False, "load_adjustment_interval_seconds": None},
        {"enable_load_scaling": False, "load_adjustment_interval_seconds": 500},
        {"load_adjustment_interval_seconds": 119.5},
    ],
)
def test_only_running_loops_bind_their_interval(change):
    assert space(planner_scaling_policy=[POLICY | change]).planner_scaling_policy == [POLICY | change]


@pytest.mark.parametrize(
    ("knob", "entry", "word"),
    [
        (
            "planner_fpm_sampling",
            {"max_num_fpm_samples": 0, "fpm_sample_bucket_size": 4},
            "max_num_fpm_samples",
        ),
        ("planner_fpm_sampling", {"max_num_fpm_samples": 9, "fpm_sample_bucket_size": 8}, "perfect square"),
        ("planner_fpm_sampling", {"max_num_fpm_samples": 9.5, "fpm_sample_bucket_size": 4}, "whole number"),
        (
            "planner_load_sensitivity",
            {"load_scaling_down_sensitivity": -1, "load_min_observations": 1},
            "load_scaling_down_sensitivity",
        ),
        (
            "planner_load_sensitivity",
            {"load_scaling_down_sensitivity": 0, "load_min_observations": 0},
            "load_min_observations",
        ),
        ("load_predictor_candidates", {"load_predictor": "kalmann"}, "did you mean 'kalman'?"),
        ("load_predictor_candidates", {"load_predictor": "kalman", "kalman_r": 0}, "kalman_r"),
        ("load_predictor_candidates", {"load_predictor": "kalman", "kalman_q_trend": -1}, "kalman_q_trend"),
        (
            "load_predictor_candidates",
            {"load_predictor": "kalman", "kalman_min_points": 0},
            "kalman_min_points",
        ),
        ("load_predictor_candidates", {"load_predictor": "prophet", "prophet_window_size": 0}, "window_size"),
        ("load_predictor_candidates", {"load_predictor": "arima", "load_predictor_log1p": "yes"}, "log1p"),
    ],
)
def test_composite_values(knob, entry, word):
    assert word in refusal(**{knob: [entry]})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gpu_budget", 0),
        ("gpu_budget", True),
        ("min_gpu_budget", 0),
        ("min_endpoint", -1),
        ("context_length", 0),
        ("startup_time", -0.5),
        ("startup_time", float("inf")),
        ("aic_nextn", -1),
        ("decode_gpu_memory_utilization", 0),
        ("num_g2_blocks", -1),
        ("kv_bytes_per_token", 0),
        ("bandwidth_g1_to_g2_gbps", 0),
        ("bandwidth_g2_to_g1_gbps", float("nan")),
        ("offload_batch_size", 0),
        ("model_name", " "),
        ("hardware_sku", 3),
        ("gpu_budget", 16_385),
        ("agg_block_size", 1),
        ("decode_block_size", 65_537),
    ],
)
def test_pinned_field_bounds(field, value):
    assert field in refusal(**{field: value})


def test_only_a_block_size_that_some_candidate_uses_must_suit_its_backend():
    assert space(backend=["sglang"], agg_block_size=1).agg_block_size == 1
    assert space(deployment_mode=["disagg"], agg_block_size=1).agg_block_size == 1
    message = refusal(backend=["sglang", "trtllm"], agg_block_size=1)
    assert "agg_block_size must be at least 2 for trtllm, got 1" in message
    assert space(backend=["vllm"], agg_block_size=48).agg_block_size == 48
    message = refusal(backend=["vllm", "sglang"], agg_block_size=48)
    assert "agg_block_size must divide the 8192 tokens of a chunk of sglang, got 48" in message


def test_a_huge_value_is_not_quoted_in_full():
    for fields in (
        {"backend": [["x" * 1000] * 1000]},
        {"planner_scaling_policy": [{"k" * 10**6: 1}]},
        agg({"tp": ["x"] * 10**6}),
    ):
        with pytest.raises(ValidationError) as caught:
            space(**fields)
        assert len(one_line(caught.value, "", SmartSearchConfig)) < 1000


def test_offload_needs_the_bytes_of_a_token():
    assert "kv_bytes_per_token is required" in refusal(num_g2_blocks=5)
    assert space(num_g2_blocks=5, kv_bytes_per_token=7).num_g2_blocks == 5


def test_disagg_roles_share_a_block_size():
    message = refusal(prefill_block_size=32)
    assert "prefill_block_size (32)" in message and "decode_block_size (64)" in message
    assert space(prefill_block_size=32, decode_block_size=32).decode_block_size == 32


def test_admission_pins():
    pins = {"no_admission_control": True, "active_prefill_tokens_threshold_frac": 0.5}
    message = refusal(**pins)
    assert "not supported by the Dynamo replay API" in message
    assert "active_prefill_tokens_threshold_frac, no_admission_control" in message
    assert "active_decode_blocks_threshold" in refusal(active_decode_blocks_threshold=0)
    assert space(router_mode=["round_robin"], **pins).no_admission_control


def test_unknown_fields_are_refused():
    assert "search_space.gpu_bugdet" in refusal(gpu_bugdet=3)


def agg(*pins):
    return {"deployment_mode": ["agg"], "parallel_configs": list(pins)}


def disagg(*pins):
    return {"deployment_mode": ["disagg"], "parallel_configs": list(pins)}


def test_pins_are_kept_with_whole_numbers():
    given = space(**agg({"tp": 4.0, "moe_ep": 4, "replicas": 2}))
    assert given.parallel_configs == [{"tp": 4, "moe_ep": 4, "replicas": 2}]
    assert type(given.parallel_configs[0]["tp"]) is int
    pair = {"prefill": {"tp": 1}, "decode": {"tp": 2, "replicas": 3}}
    assert space(**disagg(pair)).parallel_configs == [pair]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (agg(3), ["parallel_configs[0]", "dict"]),
        (agg({"tp": 1}, {"replicas": 2}), ["parallel_configs[1]", "'tp' field"]),
        (agg({"tp": 1, "moe_epp": 2}), ["moe_epp", "did you mean 'moe_ep'?"]),
        (agg({"tp": "four"}), ["tp", "'four'"]),
        (agg({"tp": True}), ["tp", "True"]),
        (agg({"tp": 1, "pp": 0}), ["pp", "whole number >= 1"]),
        (agg({"prefill": {"tp": 1}, "decode": {"tp": 1}}), ["'tp' field"]),
        (disagg({"tp": 1}), ["prefill", "decode"]),
        (disagg({"prefill": {"tp": 1}}), ["prefill", "decode"]),
        (disagg({"prefill": 2, "decode": {"tp": 1}}), ["prefill must be a dict"]),
        (disagg({"prefill": {"tp": 1}, "decode": {"replicas": 1}}), ["decode needs a 'tp' field"]),
        (disagg({"prefill": {"tp": 1}, "decode": {"tp": 1}, "router": 1}), ["router"]),
        (disagg({"prefill": {"tp": 1.5}, "decode": {"tp": 1}}), ["prefill", "1.5"]),
    ],
)
def test_pin_rules(fields, words):
    message = refusal(**fields)
    assert [word for word in words if word not in message] == []
