"""TTFT of a closed loop without the burst that it starts with."""

from __future__ import annotations

import pytest

from aisimulate.replay.execute import execute

SPEC = {
    "topology": {"kind": "aggregated", "workers": {"initial_workers": 2}},
    "engine": {"rank": {"backend": "vllm", "num_gpu_blocks": 4000, "block_size": 64, "max_num_seqs": 64}},
}


def report(**traffic):
    return execute({"spec": SPEC, "traffic": {"source_type": "synthetic", "isl": 700, "osl": 30} | traffic})


def test_it_is_that_of_the_requests_that_took_anothers_place():
    whole = report(load_type="concurrency", concurrency=40, request_count=200)
    later = sorted(r["ttft_ms"] for r in whole["per_request"] if r["arrival_time_ms"] > 0)
    assert len(later) == 160
    assert whole["mean_steady_ttft_ms"] == pytest.approx(sum(later) / 160)
    assert whole["max_steady_ttft_ms"] == later[-1] < whole["max_ttft_ms"]
    assert whole["median_steady_ttft_ms"] in later
    assert whole["mean_steady_ttft_ms"] < whole["mean_ttft_ms"]


def test_nobody_takes_a_place_in_an_open_loop():
    whole = report(load_type="constant_rate", request_count=20, arrival_interval_ms=50.0)
    assert not [name for name in whole if "steady" in name]


def test_a_burst_alone_leaves_nothing():
    assert report(load_type="concurrency", concurrency=9, request_count=9)["max_steady_ttft_ms"] == 0.0
