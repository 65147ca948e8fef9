"""Replays that do less than all, against replays of all."""

from __future__ import annotations

import json

import pytest

from aisimulate.replay.early_stop import execute_first_sessions, execute_until_settled
from aisimulate.replay.execute import execute
from aisimulate.replay.parts import EARLY_STOP_KEY, FIRST_SESSIONS_KEY
from aisimulate.workload.wave_driver import Wave, have_settled

POOL = {"initial_workers": 2}
RANK = {"backend": "vllm", "num_gpu_blocks": 4000, "block_size": 64, "max_num_seqs": 64}
TIMELESS = {"type": "fixed", "prefill_ms": 0.0, "decode_ms": 0.0}
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


def test_a_pool_whose_waves_are_watched_keeps_its_requests(monkeypatch):
    payload = closed_loop()
    kept = execute_until_settled(payload)
    monkeypatch.setattr("aisimulate.replay.fleet._MOST_KEPT", 50)
    monkeypatch.setattr("aisimulate.workload.driver._MADE_AHEAD", 16)  # so that there is a time to tidy up
    assert execute_until_settled(payload) == kept
    assert EARLY_STOP_KEY in kept


@pytest.mark.parametrize(
    ("e2e_ms", "tpot_ms", "settles"),
    [
        ([100.0], [10.0], False),
        ([100.4, 100.0], [10.09, 10.0], True),
        ([100.4, 100.0], [10.2, 10.0], False),
        ([101.0, 100.0], [10.0, 10.0], False),
        ([100.0, 104.0, 100.3, 103.5], [10.0, 11.0, 10.0, 11.0], True),
        ([100.0, 104.0, 102.0, 106.0], [10.0, 11.0, 10.0, 11.0], False),
        ([100.0, 104.0, 100.0], [10.0, 11.0, 10.0], False),
    ],
    ids=[
        "one",
        "alike",
        "tokens apart",
        "requests apart",
        "alternating",
        "alternating and drifting",
        "three",
    ],
)
def test_waves_settle_when_they_agree_or_alternate(e2e_ms, tpot_ms, settles):
    """The latest wave is the first."""
    waves = [Wave(e2e, 1.0, tpot) for e2e, tpot in zip(e2e_ms, tpot_ms, strict=True)]
    assert have_settled(waves) is settles


@pytest.mark.parametrize(("spec", "stops"), [(AGGREGATED, False), (PAIR, True)], ids=["aggregated", "pair"])
def test_a_very_long_loop_of_one_pool_is_replayed_to_its_end(monkeypatch, spec, stops):
    monkeypatch.setattr("aisimulate.replay.early_stop._MOST_REQUESTS", 399)
    assert (EARLY_STOP_KEY in execute_until_settled(closed_loop(spec))) is stops


@pytest.mark.parametrize(
    "payload",
    [
        closed_loop(waves=3),
        closed_loop(source_type="synthetic-session", turns_per_session=2, waves=5),
        closed_loop(AGGREGATED | {"engine": {"rank": RANK | {"max_model_len": 500}}}),
        closed_loop(AGGREGATED | {"engine": {"rank": RANK | {"max_model_len": 500}}}, concurrency=1),
        closed_loop(AGGREGATED | {"engine": {"rank": RANK | {"timing_model": TIMELESS}}}),
        closed_loop(load_type="constant_rate", request_count=50, arrival_interval_ms=50.0) | {"open": True},
    ],
    ids=["few waves", "sessions", "all rejected", "one by one, all rejected", "no time", "open loop"],
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
