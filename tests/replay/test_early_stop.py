"""Replays that do less than all, against replays of all."""

from __future__ import annotations

import json

import pytest

from aisimulate.replay.early_stop import execute_first_sessions, execute_until_settled
from aisimulate.replay.execute import execute
from aisimulate.replay.parts import EARLY_STOP_KEY, FIRST_SESSIONS_KEY

POOL = {"initial_workers": 2}
RANK = {"backend": "vllm", "num_gpu_blocks": 4000, "block_size": 64, "max_num_seqs": 64}
AGGREGATED = {
    "topology": {"kind": "aggregated", "workers": POOL},
    "engine": {"rank": RANK},
    "record_per_request": False,
}
PAIR = AGGREGATED | {
    "topology": {"kind": "disaggregated", "prefill": POOL, "decode": POOL},
}


def closed_loop(spec=AGGREGATED, *, concurrency=40, waves=10, **traffic):
    load = {"load_type": "concurrency", "concurrency": concurrency, "request_count": waves * concurrency}
    return {"spec": spec, "traffic": {"source_type": "synthetic", "isl": 700, "osl": 80} | load | traffic}


@pytest.mark.parametrize("spec", [AGGREGATED, PAIR], ids=["aggregated", "pair"])
@pytest.mark.parametrize("concurrency", [2, 40, 100])
def test_a_settled_loop_tells_what_the_whole_would(spec, concurrency):
    payload = closed_loop(spec, concurrency=concurrency)
    whole, short = execute(payload), execute_until_settled(payload)
    assert 2 * concurrency * 0.95 <= short[EARLY_STOP_KEY] <= 8 * concurrency
    for name in (
        "output_throughput_tok_s",
        "duration_ms",
        "gpu_hours",
        "mean_e2e_latency_ms",
        "mean_tpot_ms",
    ):
        assert short[name] == pytest.approx(whole[name], rel=0.03), name
    name = "mean_output_token_throughput_per_user"
    assert short[name] == pytest.approx(whole[name], rel=0.03)
    for name in ("num_requests", "completed_requests", "total_output_tokens", "total_input_tokens"):
        assert short[name] == pytest.approx(whole[name])
    assert not [name for name in short if name.startswith(("p99", "goodput"))]
    assert short == execute_until_settled(payload)


@pytest.mark.parametrize(("spec", "stops"), [(AGGREGATED, False), (PAIR, True)], ids=["aggregated", "pair"])
def test_a_long_loop_of_one_pool_lets_requests_go_and_is_replayed_to_its_end(monkeypatch, spec, stops):
    monkeypatch.setattr("aisimulate.replay.early_stop._MOST_REQUESTS", 399)
    assert (EARLY_STOP_KEY in execute_until_settled(closed_loop(spec))) is stops


@pytest.mark.parametrize(
    "payload",
    [
        closed_loop(waves=3),
        closed_loop(source_type="synthetic-session", turns_per_session=2, waves=5),
        closed_loop(AGGREGATED | {"engine": {"rank": RANK | {"max_model_len": 500}}}),
        closed_loop(load_type="constant_rate", request_count=50, arrival_interval_ms=50.0) | {"open": True},
    ],
    ids=["few waves", "sessions", "all rejected", "open loop"],
)
def test_what_does_not_settle_is_replayed_to_its_end(payload):
    if payload.pop("open", False):
        payload["traffic"].pop("concurrency")
    assert without_clock(execute_until_settled(payload)) == without_clock(execute(payload))


def without_clock(report):
    clock = ("wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s")
    return {name: value for name, value in report.items() if name not in clock}


def trace_file(tmp_path, rows):
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return str(path)


def row(arrival_ms, tokens):
    return {"timestamp": arrival_ms, "input_length": tokens, "output_length": 5, "hash_ids": [tokens]}


@pytest.mark.parametrize("first", [0, 900])
def test_the_first_sessions_are_those_that_arrive_first(tmp_path, first):
    rows = [row(first, 100), row(100, 200), row(300, 300), row(500, 400)]
    traffic = {"source_type": "trace", "trace_path": trace_file(tmp_path, rows), "trace_format": "mooncake"}
    payload = {"spec": AGGREGATED, "traffic": traffic}
    report = execute_first_sessions(payload, 2)
    assert report[FIRST_SESSIONS_KEY] == report["num_requests"] == 2
    assert report["total_input_tokens"] == (300 if first == 0 else 500)
    kept = sorted(rows, key=lambda each: each["timestamp"])[:2]
    (tmp_path / "cut").mkdir()
    cut = payload | {"traffic": traffic | {"trace_path": trace_file(tmp_path / "cut", kept)}}
    assert without_clock(report) == without_clock(execute(cut)) | {FIRST_SESSIONS_KEY: 2}
    assert without_clock(execute_first_sessions(payload, 4)) == without_clock(execute(payload))
