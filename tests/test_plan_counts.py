"""How often the scheduler is asked to plan: the cost of a replay that no machine's noise can blur.

Passes are the simulated forwards, plans the planner calls that a macro-step engine needs for them
(spec 09 section 1). More plans for the same passes mean that a jump is cut where it need not be.
"""

import copy
import json

import pytest

from tools.bench.scenarios import BENCHMARKS, SCENARIOS, SHIPPED_CUT, SHIPPED_TRACES
from tools.parity.scenario import payload_of, plan_counts


def counts(scenario):
    return plan_counts(payload_of(scenario, SHIPPED_TRACES))


def closed_loop(engine, workers, workload):
    scenario = copy.deepcopy(json.loads((SCENARIOS / "05_1k1k_c4096_w8.json").read_text()))
    scenario["engine"] |= engine
    scenario["fleet"]["workers"] = workers
    scenario["workload"] |= workload
    return scenario


def test_an_open_loop_trace_needs_few_plans():
    scenario = next(item for item in BENCHMARKS if item.name == "01_conv1000_rr_8w").scenario()
    assert counts(scenario) == {"passes": 248_367, "plans": 3_402}


def test_sglang_needs_as_few():
    scenario = next(item for item in BENCHMARKS if item.name == "10_sglang_conv1000_rr_8w").scenario()
    assert counts(scenario) == {"passes": 249_153, "plans": 3_404}


@pytest.mark.parametrize(
    ("engine", "workers", "workload", "expected"),
    [
        ({}, 8, {"concurrency": 512, "requests": 5_120}, {"passes": 81_992, "plans": 880}),
        # The head of the queue waits for what is reserved: when it gets in is computed, not tried out.
        (
            {"backend": "sglang", "num_gpu_blocks": 2_048},
            1,
            {"concurrency": 256, "requests": 1_280},
            {"passes": 19_491, "plans": 1_889},
        ),
        # A cache too small for the load: every preemption begins a jump.
        (
            {"max_num_seqs": 256, "num_gpu_blocks": 2_048},
            1,
            {"concurrency": 256, "requests": 2_560},
            {"passes": 31_821, "plans": 3_753},
        ),
    ],
)
def test_a_closed_loop_needs_few_plans(engine, workers, workload, expected):
    assert counts(closed_loop(engine, workers, workload)) == expected


def test_a_closed_loop_trace_computes_long_prompts_up_to_their_last_chunk_at_once():
    scenario = closed_loop({}, 8, {})
    scenario["engine"] = json.loads((SCENARIOS / "03_conv_cl256_rr_8w.json").read_text())["engine"]
    scenario["workload"] = {
        "kind": "trace",
        "path": SHIPPED_CUT,
        "format": "mooncake",
        "block_size": 512,
        "concurrency": 64,
    }
    assert counts(scenario) == {"passes": 53_893, "plans": 2_853}


def test_decode_workers_of_a_pair_plan_two_runs_per_request():
    scenario = json.loads((SCENARIOS / "07_conv_disagg_4p4d.json").read_text())
    scenario["workload"]["path"] = SHIPPED_CUT
    assert counts(scenario) == {"passes": 166_378, "plans": 3_019}
