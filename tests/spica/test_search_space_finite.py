"""The finite space of distinct effective points (spec 05 section 5, D7, D8)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.spica.choices import default_choices
from aisimulate.spica.finite_space import FiniteSpace, distinct_choices, finite_size
from aisimulate.spica.parallel_enum import enumerate_parallel_configs
from aisimulate.spica.search_space import BranchSpace

CONFIGS = enumerate_parallel_configs(is_moe=False, backend="vllm", gpu_budget=8)
WEIGHTS = ("overlap_score_credit", "prefill_load_scale", "router_temperature")
SCALED = {
    "enable_throughput_scaling": False,
    "enable_load_scaling": True,
    "throughput_adjustment_interval_seconds": 180,
    "load_adjustment_interval_seconds": 5,
}
OFF = {key: False if key.startswith("enable") else None for key in SCALED}


def branch_of(supported, float_ranges=None, **knobs):
    return BranchSpace(
        deployment_mode="agg",
        parallel_configs=tuple(supported),
        supported_backends={config: frozenset(names) for config, names in supported.items()},
        knob_choices=knobs,
        gpu_budget=8,
        float_ranges=float_ranges or {},
    )


def default_branch(policies, **changes):
    names = ("router_mode", *WEIGHTS, "planner_fpm_sampling", "planner_load_sensitivity")
    names += ("agg_max_num_batched_tokens", "agg_max_num_seqs")
    knobs = {name: default_choices(name) for name in names}
    knobs |= {"planner_scaling_policy": policies, "backend": ["vllm"], **changes}
    return branch_of({config: ["vllm"] for config in CONFIGS}, **knobs)


def test_size_of_the_default_space():
    throughput_goal = ["disabled", "load_180_5", "load_180_10"]
    assert finite_size(default_branch(throughput_goal)) == 15 * 9 * 109 * 25 == 367_875
    collapsed = {"planner_fpm_sampling": ["default"], "planner_load_sensitivity": ["default"]}
    assert finite_size(default_branch(throughput_goal, **collapsed)) == 15 * 9 * 109 * 3


def test_static_policies_count_once():
    assert finite_size(default_branch(["disabled", OFF])) == 15 * 9 * 109
    assert finite_size(default_branch([OFF, "load_180_5", "disabled"])) == 15 * 9 * 109 * 13


def test_a_dict_equal_to_a_preset_is_no_second_policy():
    assert distinct_choices("planner_scaling_policy", ["load_180_5", SCALED, "disabled"]) == [
        "load_180_5",
        "disabled",
    ]
    assert distinct_choices("agg_max_num_seqs", [256, 512, 256]) == [256, 512]


def test_only_round_robin():
    assert finite_size(default_branch(["disabled"], router_mode=["round_robin"])) == 15 * 9


def test_a_continuous_range_has_no_size():
    branch = branch_of({CONFIGS[0]: ["vllm"]}, {"kv_load_ratio": (0.0, 1.0)}, backend=["vllm"])
    assert finite_size(branch) is None
    assert FiniteSpace(branch).size == 1


def test_every_point_of_a_small_space_in_order():
    branch = branch_of(
        {CONFIGS[0]: ["vllm", "sglang"], CONFIGS[1]: ["sglang"]},
        router_mode=["kv_router", "round_robin"],
        router_temperature=[0.0, 1.0],
        planner_scaling_policy=["load_180_5", "disabled"],
        planner_fpm_sampling=["small", "fine"],
        planner_load_sensitivity=["default"],
        agg_max_num_seqs=[512, 256],
        backend=["sglang", "vllm"],
    )
    space = FiniteSpace(branch)
    points = list(space)
    assert len(points) == space.size == 3 * 2 * 3 * 3
    keys = ("agg_max_num_seqs", "router_mode", "router_temperature")
    keys += ("planner_scaling_policy", "planner_fpm_sampling")
    rows = [tuple(point.selection[key] for key in keys) for point in points[:9]]
    planner = [("load_180_5", "small"), ("load_180_5", "fine"), ("disabled", "small")]
    router = [("kv_router", 0.0), ("kv_router", 1.0), ("round_robin", 0.0)]
    assert rows == [(512, *route, *plan) for route in router for plan in planner]
    assert [points[index].selection["agg_max_num_seqs"] for index in (8, 9, 17, 18)] == [512, 256, 256, 512]
    placed = [(points[index].selection["backend"], points[index].parallel_config) for index in (0, 18, 36)]
    assert placed == [("sglang", CONFIGS[0]), ("sglang", CONFIGS[1]), ("vllm", CONFIGS[0])]


def test_a_selection_is_complete_and_starts_with_the_mode():
    branch = default_branch(["disabled", "load_180_5"])
    selection = FiniteSpace(branch).point_at(7).selection
    assert list(selection) == ["deployment_mode", *branch.knob_choices]
    assert selection["deployment_mode"] == "agg"


def test_a_fully_pinned_branch_is_one_point():
    branch = branch_of({CONFIGS[0]: ["vllm"]}, router_mode=["round_robin"], backend=["vllm"])
    (point,) = FiniteSpace(branch)
    assert point.selection == {"deployment_mode": "agg", "router_mode": "round_robin", "backend": "vllm"}
    assert point.parallel_config == CONFIGS[0]


def test_a_scalar_load_is_part_of_every_point():
    branch = branch_of({CONFIGS[0]: ["vllm"]}, backend=["vllm"], kv_load_ratio=[0.5])
    assert [point.selection["kv_load_ratio"] for point in FiniteSpace(branch)] == [0.5]


@pytest.mark.parametrize("index", [-1, 1])
def test_indices_outside_are_refused(index):
    with pytest.raises(IndexError):
        FiniteSpace(branch_of({CONFIGS[0]: ["vllm"]}, backend=["vllm"])).point_at(index)


def effect(point):
    """What a point does: its selection without the knobs that nothing reads."""
    chosen = dict(point.selection)
    if chosen.get("router_mode") == "round_robin":
        chosen = {knob: value for knob, value in chosen.items() if knob not in WEIGHTS}
    if chosen.get("planner_scaling_policy") in ("disabled", OFF):
        details = ("planner_scaling_policy", "planner_fpm_sampling", "planner_load_sensitivity")
        chosen = {knob: value for knob, value in chosen.items() if knob not in details}
    return json.dumps(chosen, sort_keys=True), point.parallel_config


subsets = {
    "router_mode": ["kv_router", "round_robin"],
    "overlap_score_credit": [0.0, 0.5, 1.0],
    "planner_scaling_policy": ["disabled", OFF, "load_180_5", "hybrid_180_5"],
    "planner_fpm_sampling": ["small", "default"],
    "agg_max_num_seqs": [256, 512],
}


@given(
    st.fixed_dictionaries(
        {knob: st.lists(st.sampled_from(values), min_size=1) for knob, values in subsets.items()}
    )
)
def test_points_are_distinct_in_effect_and_complete(knobs):
    supported = {CONFIGS[0]: ["vllm"], CONFIGS[5]: ["vllm", "sglang"]}
    space = FiniteSpace(branch_of(supported, **knobs, backend=["vllm", "sglang"]))
    effects = [effect(point) for point in space]
    assert len(set(effects)) == len(effects) == space.size
    for knob, values in knobs.items():
        seen = {json.dumps(point.selection[knob], sort_keys=True) for point in space}
        listed = {json.dumps(value, sort_keys=True) for value in values}
        assert seen <= listed
        reads_weights = "kv_router" in knobs["router_mode"]
        if knob == "router_mode" or (knob == "overlap_score_credit" and reads_weights):
            assert seen == listed
