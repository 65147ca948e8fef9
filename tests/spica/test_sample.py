"""Unrolled samples: keys, order, values (spec 05 section 8)."""

import json
from pathlib import Path

import pytest
from sample_cases import CASES, load_predictor, parallel_config, unrolled

from aisimulate.spica.config import SearchSpace
from aisimulate.spica.load_predictor_sweep import LoadPredictorResult
from aisimulate.spica.parallel_enum import DisaggParallelConfig, ParallelShape, ReplicaParallelConfig
from aisimulate.spica.sample import unroll_sample

DATA = Path(__file__).parents[1] / "data" / "search" / "sample_cases.json"
AGG = ReplicaParallelConfig(ParallelShape(1, 1, 1, 1), 1)


@pytest.mark.parametrize("name", CASES)
def test_stored_samples(name):
    case = CASES[name]
    sample = unrolled(case)
    assert [list(item) for item in sample.items()] == case["expected_items"]
    assert len(sample) == case["num_keys"]


def test_the_stored_file_is_used():
    assert len(json.loads(DATA.read_text())["cases"]) == 10


@pytest.mark.parametrize(
    ("mode", "config", "needed"),
    [
        ("agg", DisaggParallelConfig(AGG, AGG), "ReplicaParallelConfig"),
        ("disagg", AGG, "DisaggParallelConfig"),
    ],
)
def test_a_config_of_the_other_mode_is_refused(mode, config, needed):
    with pytest.raises(TypeError, match=needed):
        unroll_sample(
            search_space=SearchSpace(model_name="m", hardware_sku="h"),
            selection={"deployment_mode": mode, "backend": "vllm"},
            parallel_config=config,
        )


@pytest.mark.parametrize("knob", ["agg_max_num_seqs", "backend", "router_mode", "planner_scaling_policy"])
def test_a_missing_knob_is_named(knob):
    case = CASES["agg_rr_disabled"]
    selection = {name: value for name, value in case["selection"].items() if name != knob}
    with pytest.raises(KeyError, match=knob):
        unrolled({**case, "selection": selection})


@pytest.mark.parametrize("knob", ["overlap_score_credit", "prefill_load_scale", "router_temperature"])
def test_kv_router_needs_its_weights(knob):
    case = CASES["agg_kv_disabled"]
    selection = {name: value for name, value in case["selection"].items() if name != knob}
    with pytest.raises(KeyError, match=knob):
        unrolled({**case, "selection": selection})


def test_a_custom_predictor_gets_its_defaults():
    case = CASES["agg_rr_throughput_no_winner"]
    winners = LoadPredictorResult({180: {"load_predictor": "kalman", "kalman_q_trend": 0.5}})
    sample = unroll_sample(
        search_space=SearchSpace(**case["search_space"]),
        selection=case["selection"],
        parallel_config=parallel_config(case["parallel_config"]),
        load_predictor=winners,
    )
    assert list(sample.items())[-6:] == [
        ("load_predictor", "kalman"),
        ("load_predictor_log1p", False),
        ("kalman_q_level", 1.0),
        ("kalman_q_trend", 0.5),
        ("kalman_r", 10.0),
        ("kalman_min_points", 5),
    ]


def test_winners_are_found_by_number():
    assert load_predictor({"180": "arima_raw"}).best_by_interval[180.0] == "arima_raw"
