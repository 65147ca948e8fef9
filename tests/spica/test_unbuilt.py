"""Searches with a look-ahead or a front end: what reaches the replay, and what is left out by name."""

from __future__ import annotations

import pytest
from sample_cases import CASES, parallel_config

from aisimulate.core.errors import UnsupportedError
from aisimulate.spica.config import SearchSpace, SmartSearchConfig
from aisimulate.spica.deploy import build_deployment
from aisimulate.spica.evaluator import ReplayEvaluator
from aisimulate.spica.policy import effective_config
from aisimulate.spica.sample import unroll_sample
from aisimulate.spica.screen.goals import no_screen_reason

WORKLOAD = {"isl": 8, "osl": 8, "num_request_ratio": 1, "request_rate": 1.0}
EVERYTHING = {
    "deployment_mode": ["disagg", "agg"],
    "backend": ["vllm", "sglang"],
    "router_mode": ["kv_router", "round_robin"],
    "planner_scaling_policy": ["disabled", "load_180_5"],
}
PLAIN = {
    "deployment_mode": ["agg"],
    "backend": ["vllm"],
    "router_mode": ["round_robin"],
    "planner_scaling_policy": ["disabled"],
}
GOAL = {"target": "goodput", "sla": {"ttft_ms": 100.0, "itl_ms": 10.0}}


def config(space: dict | None = None, frontend: dict | None = None) -> SmartSearchConfig:
    search_space = {"model_name": "m", "hardware_sku": "h", **(space or {})}
    workload = WORKLOAD | {"frontend": frontend}
    return SmartSearchConfig.model_validate(
        {"search_space": search_space, "workload": workload, "goal": GOAL}
    )


def kept(found: SmartSearchConfig) -> dict[str, list]:
    return {knob: getattr(found.search_space, knob) for knob in EVERYTHING}


def test_a_look_ahead_leaves_nothing_out() -> None:
    found, notes = effective_config(config({**EVERYTHING, "scheduling_look_ahead": 1}))
    assert kept(found) == EVERYTHING
    assert not [note for note in notes if "look_ahead" in note]


@pytest.mark.parametrize("drafts", [{"aic_nextn": 2}, {"aic_nextn_choices": [0, 2]}])
def test_drafts_beside_a_look_ahead_leave_out_pairs(drafts: dict) -> None:
    found, notes = effective_config(config({**EVERYTHING, **drafts, "scheduling_look_ahead": 1}))
    assert kept(found) == {**EVERYTHING, "deployment_mode": ["agg"]}
    beside = "(cannot be simulated yet with scheduling_look_ahead 1 and aic_nextn 2)"
    assert f"deployment_mode: dropped disagg {beside}, searching agg" in notes


def test_chunks_leave_nothing_out() -> None:
    found, _ = effective_config(config(EVERYTHING, {"preset": "inferencex"}))
    assert kept(found) == EVERYTHING


def test_an_interval_of_receiving_leaves_out_routers_and_pairs() -> None:
    found, _ = effective_config(config(EVERYTHING, {"receive_interval": 10}))
    assert kept(found) == {**PLAIN, "backend": ["vllm", "sglang"]}


def test_an_offset_leaves_nothing_out() -> None:
    found, _ = effective_config(config(EVERYTHING, {"ttft_offset_ms": 10}))
    assert kept(found) == EVERYTHING


@pytest.mark.parametrize(
    ("space", "frontend", "text"),
    [
        (
            {"scheduling_look_ahead": 1, "num_g2_blocks": 2, "kv_bytes_per_token": 64},
            None,
            "search_space.num_g2_blocks 2: cannot be simulated yet with scheduling_look_ahead 1; set 0",
        ),
        (
            {"aic_nextn": 2},
            {"stream_interval": 3},
            "search_space.aic_nextn 2: cannot be simulated yet with "
            "workload.frontend.stream_interval 3; set 0",
        ),
    ],
)
def test_pins_are_refused(space: dict, frontend: dict | None, text: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        effective_config(config(space, frontend))
    assert str(caught.value) == text


def test_what_is_legal() -> None:
    with pytest.raises(ValueError, match="scheduling_look_ahead must be 0 or 1 passes, got 2"):
        config({"scheduling_look_ahead": 2})
    with pytest.raises(ValueError, match="'inferencex-trtllm' is fitted on another backend than 'vllm'"):
        config({"backend": ["trtllm", "vllm"]}, {"preset": "inferencex-trtllm"})


def test_they_reach_the_replay() -> None:
    case = CASES["agg_rr_disabled"]
    sample = unroll_sample(
        search_space=SearchSpace(model_name="m", hardware_sku="h", scheduling_look_ahead=1),
        selection={**case["selection"], "backend": "vllm"},
        parallel_config=parallel_config(case["parallel_config"]),
    )
    found = config(frontend={"preset": "inferencex-vllm", "ttft_offset_ms": 3.0, "stream_interval": 2})
    evaluator = ReplayEvaluator(found.workload, found.goal)
    spec = evaluator.payload(build_deployment(sample, backend_version="1"))["spec"]
    assert spec["engine"]["rank"]["scheduling_look_ahead"] == 1
    assert spec["frontend"] == {"preset": "inferencex-vllm", "stream_interval": 2, "ttft_offset_ms": 3.0}
    assert (
        "frontend"
        not in ReplayEvaluator(config().workload, found.goal).payload(
            build_deployment(sample, backend_version="1")
        )["spec"]
    )


def test_such_searches_are_not_screened() -> None:
    reason = "only engines without look-ahead and front end can be screened"
    space = {"planner_scaling_policy": ["disabled"]}
    assert no_screen_reason(config(space)) is None
    assert no_screen_reason(config({**space, "scheduling_look_ahead": 1})) == reason
    assert no_screen_reason(config(space, {"ttft_offset_ms": 1.0})) == reason
