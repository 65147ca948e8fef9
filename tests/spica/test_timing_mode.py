"""`search_space.timing_mode`: which candidates are replayed with it, and where it is said to do nothing."""

from __future__ import annotations

import pytest
from sample_cases import CASES, parallel_config

from aisimulate.spica.config import SearchSpace, SmartSearchConfig
from aisimulate.spica.deploy import build_deployment
from aisimulate.spica.policy import effective_config
from aisimulate.spica.runtime_payload import replay_spec
from aisimulate.spica.sample import unroll_sample


def payload(name, backend="vllm", **fields):
    case = CASES[name]
    space = SearchSpace(model_name="m", hardware_sku="h", **fields)
    sample = unroll_sample(
        search_space=space,
        selection={**case["selection"], "backend": backend},
        parallel_config=parallel_config(case["parallel_config"]),
    )
    return replay_spec(build_deployment(sample, backend_version="1"), None)


def test_aggregated_workers_are_replayed_with_it():
    rank = payload("agg_rr_disabled", timing_mode="fused")["engine"]["rank"]
    assert rank["timing_mode"] == "fused"
    assert "timing_mode" not in payload("agg_rr_disabled")["engine"]["rank"]
    assert "timing_mode" not in payload("agg_rr_disabled", "sglang", timing_mode="fused")["engine"]["rank"]


def test_a_mode_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="timing_mode"):
        SearchSpace(model_name="m", hardware_sku="h", timing_mode="fusd")


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"deployment_mode": ["disagg"]}, "timing_mode: no effect without agg"),
        (
            {"deployment_mode": ["agg"], "backend": ["sglang"]},
            "timing_mode: no effect with sglang, which never mixes prefill and decode in a pass",
        ),
        ({"deployment_mode": ["agg", "disagg"], "backend": ["sglang", "vllm"]}, None),
    ],
)
def test_where_it_does_nothing_a_note_says_so(fields, note):
    space = {"model_name": "m", "hardware_sku": "h", "timing_mode": "fused", **fields}
    workload = {"isl": 8, "osl": 8, "num_request_ratio": 1, "request_rate": 1.0}
    config = SmartSearchConfig.model_validate({"search_space": space, "workload": workload})
    _, notes = effective_config(config, capabilities=None)
    assert [found for found in notes if "timing_mode" in found] == ([note] if note else [])
