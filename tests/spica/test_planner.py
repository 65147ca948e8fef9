"""Decoding of composite knobs and the scaling policy filters (spec 05 sections 1.4 and 3.1)."""

import pytest
from spica_configs import SYNTHETIC, TOKEN_SLA, TRACE, make_config

from aisimulate.core.errors import InputError, UnsupportedError
from aisimulate.replay.capabilities import CURRENT, Capabilities
from aisimulate.spica.planner import (
    FPM_SAMPLING,
    LOAD_SENSITIVITY,
    SCALING_POLICIES,
    enables_scaling,
    filter_scaling_policies,
    fpm_fields,
    load_sensitivity_fields,
    scaling_fields,
    throughput_intervals,
)
from aisimulate.spica.policy import apply_capabilities, effective_config

FULL = Capabilities(
    backends=frozenset({"vllm", "sglang", "trtllm"}),
    topologies=frozenset({"aggregated", "disaggregated"}),
    placements=frozenset({"round_robin", "kv_router"}),
    routed_speculation=True,
    scaled_speculation=True,
    scaled_pair_backends=frozenset({"sglang", "trtllm", "vllm"}),
    scalings=frozenset({"none", "planner"}),
    trace_formats=frozenset({"mooncake", "dynamo"}),
    tiers=frozenset({"native_host_offload"}),
    speculation=True,
)
TODAY = Capabilities(
    backends=frozenset({"vllm"}),
    topologies=frozenset({"aggregated"}),
    placements=frozenset({"round_robin"}),
    scalings=frozenset({"none"}),
    trace_formats=frozenset({"mooncake"}),
)
KEPT_TODAY = {
    "deployment_mode": ["agg"],
    "router_mode": ["round_robin"],
    "planner_scaling_policy": ["disabled"],
}
CUSTOM = {
    "enable_throughput_scaling": True,
    "enable_load_scaling": False,
    "throughput_adjustment_interval_seconds": 240,
    "load_adjustment_interval_seconds": 5,
}
ALL_OFF = {
    "enable_throughput_scaling": False,
    "enable_load_scaling": False,
    "throughput_adjustment_interval_seconds": None,
    "load_adjustment_interval_seconds": None,
}


@pytest.mark.parametrize(
    ("name", "flat"),
    [
        ("disabled", (False, False, None, None)),
        ("throughput_180_5", (True, False, 180, 5)),
        ("throughput_600_5", (True, False, 600, 5)),
        ("load_180_5", (False, True, 180, 5)),
        ("load_180_10", (False, True, 180, 10)),
        ("hybrid_180_5", (True, True, 180, 5)),
        ("hybrid_600_5", (True, True, 600, 5)),
    ],
)
def test_scaling_presets(name, flat):
    fields = scaling_fields(name)
    assert tuple(fields.values()) == flat
    assert list(fields) == list(CUSTOM)
    assert enables_scaling(name) == (flat[0] or flat[1])


def test_preset_names():
    assert len(SCALING_POLICIES) == 7
    assert list(FPM_SAMPLING) == ["small", "default", "large", "fine"]
    assert list(LOAD_SENSITIVITY) == ["aggressive", "default", "conservative"]


@pytest.mark.parametrize(
    ("name", "pair"), [("small", (32, 4)), ("default", (64, 16)), ("large", (128, 16)), ("fine", (128, 64))]
)
def test_sampling_presets(name, pair):
    assert tuple(fpm_fields(name).values()) == pair


@pytest.mark.parametrize(
    ("name", "pair"), [("aggressive", (70, 3)), ("default", (80, 5)), ("conservative", (90, 8))]
)
def test_sensitivity_presets(name, pair):
    assert tuple(load_sensitivity_fields(name).values()) == pair


def test_dicts_decode_to_themselves_and_fill_gaps():
    assert scaling_fields(CUSTOM) == CUSTOM
    assert scaling_fields({"enable_load_scaling": True}) == {**ALL_OFF, "enable_load_scaling": True}
    custom = {"max_num_fpm_samples": 10, "fpm_sample_bucket_size": 4}
    assert fpm_fields(custom) == custom
    assert fpm_fields(custom) is not custom


def test_decoded_presets_are_copies():
    fpm_fields("small")["max_num_fpm_samples"] = 0
    assert FPM_SAMPLING["small"]["max_num_fpm_samples"] == 32


@pytest.mark.parametrize("decode", [scaling_fields, fpm_fields, load_sensitivity_fields])
def test_unknown_presets(decode):
    with pytest.raises(ValueError, match="nope"):
        decode("nope")


@pytest.mark.parametrize(
    ("policies", "intervals"),
    [
        (["disabled", "hybrid_600_5", "throughput_180_5", "throughput_600_5"], [180, 600]),
        (["disabled", "load_180_5"], []),
        (["hybrid_180_5", CUSTOM], [180, 240]),
    ],
)
def test_throughput_intervals(policies, intervals):
    assert throughput_intervals(policies) == intervals


def test_filter_keeps_order():
    policies = ["disabled", "throughput_180_5", "load_180_5", CUSTOM, "hybrid_180_5", "load_180_10"]
    kept, dropped = filter_scaling_policies(policies, allow_throughput=False)
    assert kept == ["disabled", "load_180_5", "load_180_10"]
    assert dropped == ["throughput_180_5", CUSTOM, "hybrid_180_5"]
    assert filter_scaling_policies(policies, allow_throughput=True) == (policies, [])


def policies_of(config):
    return config.search_space.planner_scaling_policy


def test_throughput_scaling_is_dropped_without_an_sla_goal():
    given = make_config({"planner_scaling_policy": ["disabled", "throughput_180_5", "load_180_5", CUSTOM]})
    config, notes = effective_config(given, None)
    assert policies_of(config) == ["disabled", "load_180_5"]
    assert len(policies_of(given)) == 4, "the caller's config must not change"
    assert "dropped 2" in notes[0] and "'throughput'" in notes[0] and "throughput_180_5" in notes[0]


def test_only_throughput_scaling_without_an_sla_goal_is_an_error():
    config = make_config({"planner_scaling_policy": ["throughput_180_5", "hybrid_600_5"]})
    with pytest.raises(InputError) as caught:
        effective_config(config, None)
    text = str(caught.value)
    for word in ("throughput scaling", "'throughput'", "goodput", "disabled", "load_"):
        assert word in text
    assert "\n" not in text


def test_an_sla_goal_keeps_every_policy():
    config = make_config(goal={"target": "goodput", "sla": TOKEN_SLA})
    assert effective_config(config, None) == (config, [])


def test_an_e2e_sla_keeps_static_policies_only():
    goal = {"target": "goodput_per_gpu", "sla": {"e2e_ms": 900}}
    config, notes = effective_config(
        make_config({"planner_scaling_policy": ["load_180_5", ALL_OFF, "disabled"]}, goal=goal)
    )
    assert policies_of(config) == [ALL_OFF, "disabled"]
    assert "e2e-only SLA" in notes[0]
    with pytest.raises(InputError, match="e2e-only SLA cannot seed the planner's ttft/itl target"):
        effective_config(make_config({"planner_scaling_policy": ["load_180_5"]}, goal=goal))


@pytest.mark.parametrize("target", ["throughput", "e2e_latency", "pareto"])
def test_details_of_an_easy_planner_collapse(target):
    config, notes = effective_config(
        make_config({"planner_load_sensitivity": ["conservative", "default"]}, goal={"target": target})
    )
    assert config.search_space.planner_fpm_sampling == ["small"]
    assert config.search_space.planner_load_sensitivity == ["conservative"]
    assert "planner_fpm_sampling, planner_load_sensitivity: no effect" in notes[-1]


def test_details_stay_without_a_scaling_policy():
    given = make_config({"planner_scaling_policy": ["disabled"]})
    assert effective_config(given, None) == (given, [])


def test_full_capabilities_drop_nothing():
    config = make_config({"aic_nextn": 2, "backend": ["vllm", "sglang"]})
    assert apply_capabilities(config, FULL) == (config, [])


def test_host_memory_needs_vllm():
    offload = {"num_g2_blocks": 4, "kv_bytes_per_token": 1}
    config, notes = apply_capabilities(make_config({**offload, "backend": ["vllm", "sglang"]}), FULL)
    assert (config.search_space.deployment_mode, config.search_space.backend) == (["disagg", "agg"], ["vllm"])
    assert [note.split(":")[0] for note in notes] == ["backend"]


def test_a_disk_needs_aggregated_workers():
    offload = {"num_g2_blocks": 4, "kv_bytes_per_token": 1, "num_g3_blocks": 4}
    config, notes = apply_capabilities(make_config({**offload, "backend": ["vllm"]}), FULL)
    assert config.search_space.deployment_mode == ["agg"]
    assert [note.split(":")[0] for note in notes] == ["deployment_mode"]


@pytest.mark.parametrize(("disk_blocks", "worths"), [(0, [0.0]), (4, [0.0, 0.25, 0.5])])
def test_the_worth_of_a_block_on_disk_is_searched_where_there_is_a_disk(disk_blocks, worths):
    offload = {"num_g2_blocks": 4, "kv_bytes_per_token": 1, "num_g3_blocks": disk_blocks}
    config, notes = effective_config(make_config({**offload, "deployment_mode": ["agg"]}))
    assert config.search_space.disk_cache_hit_weight == worths
    assert [note for note in notes if note.startswith("disk_cache_hit_weight")] == (
        []
        if disk_blocks
        else ["disk_cache_hit_weight: no effect without a disk tier; one choice is searched"]
    )


def test_what_cannot_be_simulated_is_dropped_with_a_note():
    config, notes = apply_capabilities(make_config({"backend": ["sglang", "vllm", "trtllm"]}), TODAY)
    space = config.search_space
    assert (space.deployment_mode, space.backend, space.router_mode) == (["agg"], ["vllm"], ["round_robin"])
    assert space.planner_scaling_policy == ["disabled"]
    assert [note.split(":")[0] for note in notes] == [
        "deployment_mode",
        "backend",
        "router_mode",
        "planner_scaling_policy",
    ]
    assert "sglang, trtllm" in notes[1]


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"backend": ["sglang", "trtllm"]}, "search_space.backend: none of sglang, trtllm"),
        ({"deployment_mode": ["disagg"]}, "search_space.deployment_mode"),
        (
            {
                "deployment_mode": ["disagg"],
                "parallel_configs": [{"prefill": {"tp": 1}, "decode": {"tp": 1}}],
            },
            "search_space.deployment_mode",
        ),
        ({"router_mode": ["kv_router"]}, "search_space.router_mode"),
        ({"planner_scaling_policy": ["load_180_5"]}, "search_space.planner_scaling_policy"),
        ({"num_g2_blocks": 3, "kv_bytes_per_token": 1}, "search_space.num_g2_blocks 3"),
        ({"aic_nextn": 1}, "search_space.aic_nextn 1"),
    ],
)
def test_nothing_left_is_refused_in_one_line(space, words):
    with pytest.raises(UnsupportedError) as caught:
        apply_capabilities(make_config(space), TODAY)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_nextn_zero_means_off():
    config = make_config({"aic_nextn": 0} | KEPT_TODAY)
    assert apply_capabilities(config, TODAY) == (config, [])


def test_a_trace_format_without_reader_is_refused():
    config = make_config(workload=TRACE | {"trace_format": "dynamo"})
    with pytest.raises(UnsupportedError, match="'dynamo'"):
        apply_capabilities(config, TODAY)
    assert apply_capabilities(config, FULL) == (config, [])


def test_the_declared_capabilities_are_the_default():
    config, _ = apply_capabilities(make_config())
    assert set(config.search_space.backend) <= CURRENT.backends


def test_the_goal_is_judged_before_the_capabilities():
    config = make_config({"planner_scaling_policy": ["throughput_180_5"]})
    with pytest.raises(InputError, match="throughput scaling"):
        effective_config(config, TODAY)


def test_no_note_about_details_of_a_dropped_planner():
    config, notes = effective_config(make_config(), TODAY)
    assert policies_of(config) == ["disabled"]
    assert not any("planner_fpm_sampling" in note for note in notes)


def test_an_evaluator_of_the_users_own_is_not_bound_by_our_capabilities():
    given = make_config({"backend": ["trtllm"], "planner_scaling_policy": ["disabled"]})
    assert effective_config(given, None) == (given, [])


@pytest.mark.parametrize(
    ("space", "note"),
    [
        ({"router_temperature": [0.0]}, "router_temperature: no effect without kv_router"),
        ({"host_cache_hit_weight": [0.5]}, "host_cache_hit_weight: no effect without kv_router"),
        (
            {"router_mode": ["round_robin"], "no_admission_control": True},
            "no_admission_control: no effect without kv_router",
        ),
        ({"offload_batch_size": 3}, "offload_batch_size: no effect with num_g2_blocks 0"),
        ({"startup_time": 3}, "startup_time: no effect without a scaling policy"),
        (
            {"load_predictor_candidates": ["arima_raw"]},
            "load_predictor_candidates: no effect without throughput scaling",
        ),
        ({"decode_max_num_seqs": [256]}, "decode_max_num_seqs: no effect without disagg"),
        ({"agg_max_num_seqs": [256, 256]}, "agg_max_num_seqs: 1 repeated choice(s) dropped"),
        ({"aic_nextn_choices": [0, 0]}, "aic_nextn_choices: 1 repeated choice(s) dropped"),
        (
            {"backend_version": {"sglang": "current"}},
            "backend_version.sglang: no effect without sglang in backend",
        ),
    ],
)
def test_fields_without_effect_are_noted(space, note):
    assert note in effective_config(make_config(space), TODAY)[1]


def test_fields_with_effect_are_not_noted():
    space = {
        "router_temperature": [0.0],
        "startup_time": 3,
        "load_predictor_candidates": ["arima_raw"],
        "decode_max_num_seqs": [256],
        "agg_max_num_seqs": [256],
    }
    goal = {"target": "goodput", "sla": TOKEN_SLA}
    assert effective_config(make_config(space, goal=goal), FULL)[1] == []


@pytest.mark.parametrize("target", ["itl", "throughput_per_user"])
def test_a_goal_that_is_zero_for_every_deployment_is_noted(target):
    space = {"planner_scaling_policy": ["disabled"]}
    config = make_config(space, SYNTHETIC | {"osl": 1}, goal={"target": target})
    assert effective_config(config, FULL)[1] == [
        f"goal.target {target}: no effect with osl 1, where no request has a second token: it is 0 for every "
        "deployment"
    ]


def test_a_cache_on_the_decode_role_is_remarked():
    space = {"decode_enable_prefix_caching": True, "planner_scaling_policy": ["disabled"]}
    notes = effective_config(make_config(space), FULL)[1]
    assert [note.split(":")[0] for note in notes] == ["decode_enable_prefix_caching"]


@pytest.mark.parametrize("field", [{"inter_turn_delay_ms": 5}, {"num_prefix_groups": 2}])
def test_session_fields_without_effect_are_noted(field):
    space = {"planner_scaling_policy": ["disabled"]}
    notes = effective_config(make_config(space, SYNTHETIC | field), FULL)[1]
    assert [note.split(":")[0] for note in notes] == list(field)
