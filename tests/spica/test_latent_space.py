"""The encoding of a branch for optimisers of other libraries (spec 05 section 7)."""

from __future__ import annotations

from sampler_contract import small_branch

from aisimulate.spica.parallel_enum import ParallelShape, ReplicaParallelConfig
from aisimulate.spica.samplers.latent_space import CONSTANT, LatentParameter, LatentSpace
from aisimulate.spica.samplers.random_sampler import RandomSampler

POLICY = {
    "enable_throughput_scaling": False,
    "enable_load_scaling": True,
    "throughput_adjustment_interval_seconds": 180,
    "load_adjustment_interval_seconds": 5,
}


def named(space):
    return {parameter.name: parameter for parameter in space.parameters}


def defaults(space):
    return {
        parameter.name: parameter.default if parameter.default is not None else parameter.values[0]
        for parameter in space.parameters
    }


def one_config(**changes):
    config = ReplicaParallelConfig(ParallelShape(2, 1, 1, 1), 1)
    fields = {"parallel_configs": (config,), "supported_backends": {config: frozenset({"vllm"})}}
    return small_branch(**(fields | changes))


def test_parameters_come_in_the_order_features_ranges_knobs():
    space = LatentSpace(small_branch(float_ranges={"kv_load_ratio": (0.0, 0.8)}))
    assert space.parameters == [
        LatentParameter("used_gpu_ratio", "float", bounds=(0.25, 1.0), default=1.0),
        LatentParameter(
            "agg_num_gpus_per_engine_target", "discrete", values=(1.0, 2.0), default=1.0, log_scale=True
        ),
        LatentParameter("kv_load_ratio", "float", bounds=(0.0, 0.8), default=0.4),
        LatentParameter("router_mode", "categorical", values=("round_robin", "kv_router")),
        LatentParameter("overlap_score_credit", "discrete", values=(0.0, 0.5, 1.0)),
        LatentParameter("agg_max_num_batched_tokens", "discrete", values=(8192.0, 16384.0)),
        LatentParameter("agg_max_num_seqs", "discrete", values=(256.0, 512.0)),
        LatentParameter("backend", "categorical", values=("vllm", "sglang"), default="vllm"),
    ]


def test_values_are_decoded_to_native_choices_and_a_projected_config():
    space = LatentSpace(small_branch(float_ranges={"kv_load_ratio": (0.0, 0.8)}))
    values = defaults(space) | {
        "used_gpu_ratio": 0.6,
        "agg_num_gpus_per_engine_target": 2.0,
        "router_mode": "kv_router",
        "overlap_score_credit": 1.0,
        "agg_max_num_seqs": 512.0,
        "backend": "sglang",
    }
    suggestion = space.suggestion(values, "mine")
    assert list(suggestion.selection) == [
        "deployment_mode",
        "planner_scaling_policy",
        "kv_load_ratio",
        "router_mode",
        "overlap_score_credit",
        "agg_max_num_batched_tokens",
        "agg_max_num_seqs",
        "backend",
    ]
    assert suggestion.selection["agg_max_num_seqs"] == 512
    assert type(suggestion.selection["agg_max_num_seqs"]) is int
    assert type(suggestion.selection["overlap_score_credit"]) is float
    assert suggestion.selection["kv_load_ratio"] == 0.4
    assert suggestion.parallel_config == ReplicaParallelConfig(ParallelShape(2, 1, 1, 1), 1)
    assert suggestion.handle == "mine"
    assert suggestion.projection.metadata()["requested_features"]["used_gpu_ratio"] == 0.6


def test_a_knob_with_a_dict_is_encoded_by_index_and_comes_back_as_it_was():
    choices = ["disabled", POLICY, "load_180_5"]
    space = LatentSpace(small_branch(knob_choices={"planner_scaling_policy": choices, "backend": ["vllm"]}))
    assert named(space)["planner_scaling_policy"].values == ("0", "1", "2")
    values = defaults(space)
    found = [space.suggestion(values | {"planner_scaling_policy": n}, None).selection for n in "012"]
    assert [selection["planner_scaling_policy"] for selection in found] == choices
    assert found[1]["planner_scaling_policy"] is POLICY


def test_whole_and_broken_numbers_keep_their_type():
    knobs = {"prefill_load_scale": [0.0, 0.25, 2.0], "agg_max_num_seqs": [512, 256, 512], "backend": ["vllm"]}
    space = LatentSpace(one_config(knob_choices=knobs))
    assert named(space)["agg_max_num_seqs"].values == (256.0, 512.0)
    selection = space.suggestion({"prefill_load_scale": 0.25, "agg_max_num_seqs": 256.00001}, None).selection
    assert (selection["prefill_load_scale"], selection["agg_max_num_seqs"]) == (0.25, 256)


def test_a_pool_of_one_is_no_parameter_and_not_projected():
    space = LatentSpace(one_config())
    assert "used_gpu_ratio" not in named(space)
    suggestion = space.suggestion(defaults(space), None)
    assert suggestion.projection is None
    assert suggestion.parallel_config.shape.tp == 2


def test_nothing_to_search_is_one_constant():
    branch = one_config(knob_choices={"agg_max_num_seqs": [256, 256], "backend": ["vllm"]})
    space = LatentSpace(branch)
    assert space.parameters == [LatentParameter(CONSTANT, "categorical", values=("0",))]
    selection = space.suggestion({CONSTANT: "0"}, None).selection
    assert selection == {"deployment_mode": "agg", "agg_max_num_seqs": 256, "backend": "vllm"}


def test_any_suggestion_is_encoded_so_that_it_decodes_to_itself():
    knobs = dict(small_branch().knob_choices) | {"planner_scaling_policy": ["disabled", POLICY]}
    for branch in (
        small_branch(knob_choices=knobs, float_ranges={"kv_load_ratio": (0.0, 1.0)}),
        one_config(),
        one_config(knob_choices={"backend": ["vllm"]}),
    ):
        space = LatentSpace(branch)
        for suggestion in RandomSampler(branch, seed=3).suggest(40):
            again = space.suggestion(space.values(suggestion), None)
            assert (again.selection, again.parallel_config) == (
                suggestion.selection,
                suggestion.parallel_config,
            )


def test_a_branch_without_a_backend_knob_takes_its_pools_backend():
    space = LatentSpace(one_config(knob_choices={"agg_max_num_seqs": [256, 512]}))
    assert space.suggestion({"agg_max_num_seqs": 512.0}, None).selection["backend"] == "vllm"
