"""Plain closed loops, whose workers take turns, against the shared clock: the same records, to the ns."""

import json

import pytest

from aisimulate.replay import fleet
from aisimulate.replay.closed_loop import ClosedLoop
from aisimulate.replay.execute import execute
from aisimulate.replay.fleet import Fleet
from tools.bench.scenarios import SCENARIOS, SHIPPED_CUT, SHIPPED_TRACES
from tools.parity.scenario import payload_of

OFTEN_FULL = {"num_gpu_blocks": 2_100}
SHORT_CHUNKS = {"max_num_batched_tokens": 512, "block_size": 16, "num_gpu_blocks": 40_000}
ALIKE = {"kind": "synthetic", "isl": 700, "osl": 90, "requests": 600}
FIXED = {"timing_model": {"type": "fixed", "prefill_ms": 20.0, "decode_ms": 5.0}}
LINEAR = {
    "type": "linear",
    "constant_ms": 5.0,
    "prefill_token_ms": 0.01,
    "decode_ms": 0.1,
    "context_token_ms": 1e-5,
}
INSTANT = {"timing_model": {"type": "fixed", "prefill_ms": 20.0, "decode_ms": 0.0}}


def loop_payload(engine, workers, concurrency, workload):
    scenario = json.loads((SCENARIOS / "03_conv_cl256_rr_8w.json").read_text())
    scenario["workload"] |= {"path": SHIPPED_CUT, "concurrency": concurrency}
    if workload:
        scenario["workload"] = {"concurrency": concurrency} | workload
    scenario["engine"] |= engine
    scenario["fleet"]["workers"] = workers
    payload = payload_of(scenario, SHIPPED_TRACES)
    payload["spec"]["record_per_request"] = True
    return payload


def result(payload):
    report = execute(payload)
    wall = [key for key in report if key == "wall_time_ms" or key.startswith("processed_")]
    return {key: value for key, value in report.items() if key not in wall}


@pytest.mark.parametrize(
    ("engine", "workers", "concurrency", "workload"),
    [
        ({}, 8, 64, {}),
        ({}, 1, 8, {}),  # somebody ends while a long prompt is computed chunk by chunk
        ({}, 3, 2, {}),
        (OFTEN_FULL, 1, 40, {}),
        (OFTEN_FULL, 3, 60, {}),
        (OFTEN_FULL | {"preemption_mode": "fifo"}, 2, 40, {}),
        (SHORT_CHUNKS, 2, 30, {}),
        ({"max_num_seqs": 3}, 2, 20, {}),
        ({"enable_prefix_caching": False}, 2, 30, {}),
        ({"backend": "trtllm"}, 2, 30, {}),
        (FIXED, 4, 40, {}),
        ({}, 4, 256, ALIKE),
        ({"num_gpu_blocks": 300}, 2, 100, ALIKE),
        (FIXED, 3, 90, ALIKE),
    ],
)
def test_workers_that_take_turns_do_what_they_do_on_a_shared_clock(
    engine, workers, concurrency, workload, monkeypatch
):
    _check(loop_payload(engine, workers, concurrency, workload), monkeypatch)


def test_an_overhead_of_every_pass_lets_them_take_turns(monkeypatch):
    payload = loop_payload({}, 4, 40, {})
    payload["spec"]["frontend"] = {"step_overhead_ms": 1.5}
    _check(payload, monkeypatch)


def _check(payload, monkeypatch):
    loops = []
    monkeypatch.setattr(ClosedLoop, "run", _counted(ClosedLoop.run, loops))
    in_turn = result(payload)
    assert len(loops) == 1
    monkeypatch.setattr(fleet, "closed_loop", lambda *_: None)
    monkeypatch.setattr(Fleet, "_let_passes_end_early", lambda _: None)
    on_a_clock = result(payload)
    assert on_a_clock.pop("per_request") == in_turn.pop("per_request")
    # Deviations are summed up run by run, and the clock cuts runs where nothing comes of it.
    assert {key for key in in_turn if on_a_clock[key] != in_turn[key]} <= {
        "std_output_token_throughput_per_user"
    }
    assert len(loops) == 1


@pytest.mark.parametrize(
    ("engine", "workers"),
    [
        (INSTANT, 1),  # passes of no length
        ({"num_gpu_blocks": 200}, 1),  # some are refused
        ({"enable_chunked_prefill": False}, 1),
        ({"max_model_len": 9_000}, 1),
        ({"timing_model": LINEAR}, 2),  # prompts beside may make a pass shorter
        ({"timing_mode": "fused"}, 2),
    ],
)
def test_other_closed_loops_keep_to_the_clock(engine, workers, monkeypatch):
    loops = []
    monkeypatch.setattr(ClosedLoop, "run", _counted(ClosedLoop.run, loops))
    result(loop_payload(engine, workers, 20, {}))
    assert loops == []


def _counted(run, loops):
    def counted(loop, tidy_up):
        loops.append(loop)
        run(loop, tidy_up)

    return counted


@pytest.mark.parametrize(("workers", "concurrency"), [(1, 3), (1, 40), (3, 20)])
@pytest.mark.parametrize("engine", [INSTANT, INSTANT | SHORT_CHUNKS])
def test_who_follows_from_passes_of_no_length_joins_a_later_round(engine, workers, concurrency, monkeypatch):
    payload = loop_payload(engine, workers, concurrency, {})
    ended_early = result(payload)["per_request"]
    monkeypatch.setattr(Fleet, "_let_passes_end_early", lambda _: None)
    assert result(payload)["per_request"] == ended_early
