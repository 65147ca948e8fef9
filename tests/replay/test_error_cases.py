"""Bad inputs: one line that names the place, the value and the rule (spec 02 section 9)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from aisimulate._runtime import run_replay_json

from .case_files import materialise

ROW = {"timestamp": 0, "input_length": 8, "output_length": 2, "hash_ids": [1, 2]}
ENGINE = {
    "dp_size": 1,
    "tensor_parallel_size": 1,
    "rank": {"num_gpu_blocks": 64, "block_size": 4, "timing_model": {"type": "polynomial"}},
}
SPEC = {
    "version": 1,
    "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
    "engine": ENGINE,
    "requests": [],
}
TRACE = {"source_type": "trace", "trace_paths": ["<trace0>"], "trace_block_size": 4}
SYNTHETIC = {"source_type": "synthetic", "isl": 8, "osl": 2, "request_count": 2, "load_type": "constant_rate"}
PACED = SYNTHETIC | {"arrival_interval_ms": 10.0}


def row(**changes: Any) -> dict[str, Any]:
    """The plain row with fields changed, or left out where the change is `...`."""
    return {key: value for key, value in (ROW | changes).items() if value is not ...}


def message(spec: dict[str, Any], traffic: dict[str, Any], files: list[list[Any]], folder: Path) -> str:
    payload = materialise({"spec": SPEC | spec, "traffic": traffic}, files, folder)
    with pytest.raises(RuntimeError) as caught:
        run_replay_json(json.dumps(payload))
    return str(caught.value)


def assert_says(text: str, words: list[str]) -> None:
    assert "\n" not in text
    assert [word for word in words if word not in text] == []


ROWS = {
    "e01 broken line": ([ROW, '{"timestamp": 1, "inp'], ["t0.jsonl:2", "not JSON"]),
    "e01 blank lines count": (["", ROW, "", "{"], ["t0.jsonl:4", "not JSON"]),
    "e02 empty file": ([], ["t0.jsonl", "no requests"]),
    "e03 no hash_ids": ([row(hash_ids=...)], ["t0.jsonl:1", "hash_ids"]),
    "e04 longer than its ids": ([ROW, row(input_length=9)], ["t0.jsonl:2", "input_length", "9", "8"]),
    "e05 no output_length": ([row(output_length=...)], ["t0.jsonl:1", "output_length"]),
    "e06 other number of outputs": (
        [row(output_token_ids=[1])],
        ["t0.jsonl:1", "output_token_ids", "1", "2"],
    ),
    "e07 delay on a first turn": ([row(session_id="a", delay=5)], ["t0.jsonl:1", "delay", "5"]),
    "e08 time runs backwards": (
        [row(session_id="a", timestamp=100), row(session_id="a", timestamp=50)],
        ["t0.jsonl:2", "'a'", "50", "100"],
    ),
    "e09 negative delay": (
        [row(session_id="a"), row(session_id="a", delay=-1)],
        ["t0.jsonl:2", "delay", "-1"],
    ),
    "e10 no first timestamp": ([row(timestamp=...)], ["request_1", "timestamp"]),
    "e12 no input": ([row(input_length=0)], ["t0.jsonl:1", "input_length", "0"]),
    "e13 empty hash_ids": ([row(hash_ids=[])], ["t0.jsonl:1", "hash_ids"]),
    "negative output": ([row(output_length=-1)], ["t0.jsonl:1", "output_length", "-1"]),
    "fractional length": ([row(input_length=7.5)], ["t0.jsonl:1", "input_length", "7.5"]),
    "text for ids": ([row(hash_ids="ab")], ["t0.jsonl:1", "hash_ids"]),
    "an array for a row": ([[1, 2]], ["t0.jsonl:1", "object"]),
}


@pytest.mark.parametrize("name", ROWS)
def test_trace_rows(name: str, tmp_path: Path) -> None:
    rows, words = ROWS[name]
    assert_says(message({}, TRACE, [rows], tmp_path), words)


def test_e11_delay_without_an_earlier_timestamp(tmp_path: Path) -> None:
    rows = [row(session_id="a", timestamp=...), row(session_id="a", timestamp=50)]
    text = message({}, TRACE | {"replay_concurrency": 1}, [rows], tmp_path)
    assert_says(text, ["t0.jsonl:2", "'a'", "50"])


TRAFFIC = {
    "e15 unknown format": (TRACE | {"trace_format": "csv"}, ["trace_format", "csv", "mooncake"]),
    "e15 nearest format": (TRACE | {"trace_format": "moncake"}, ["moncake", "did you mean 'mooncake'"]),
    "e16 block size 0": (TRACE | {"trace_block_size": 0}, ["trace_block_size", "0"]),
    "e17 speed-up 0": (TRACE | {"arrival_speedup_ratio": 0.0}, ["arrival_speedup_ratio", "0"]),
    "e18 speed-up NaN": (TRACE | {"arrival_speedup_ratio": math.nan}, ["arrival_speedup_ratio", "NaN"]),
    "e19 cap 0": (TRACE | {"replay_concurrency": 0}, ["replay_concurrency", "0"]),
    "e21 two files": (TRACE | {"trace_paths": ["<trace0>", "<trace1>"]}, ["mooncake", "2"]),
    "no path": ({"source_type": "trace"}, ["path"]),
    "no such file": (TRACE | {"trace_paths": ["/nowhere/t.jsonl"]}, ["/nowhere/t.jsonl"]),
    "unknown source": ({"source_type": "tracee"}, ["source_type", "tracee", "trace"]),
    "unknown key": (TRACE | {"trace_blocksize": 4}, ["trace_blocksize", "did you mean 'trace_block_size'"]),
    "unknown load": (SYNTHETIC | {"load_type": "poison"}, ["load_type", "poison", "poisson"]),
    "e60 no requests": (PACED | {"request_count": 0}, ["request_count", "0"]),
    "e61 no input": (PACED | {"isl": 0}, ["isl", "0"]),
    "e62 no output": (PACED | {"osl": 0}, ["osl", "0"]),
    "no isl": ({k: v for k, v in PACED.items() if k != "isl"}, ["isl"]),
    "e64 ratio above 1": (
        PACED | {"shared_prefix_ratio": 1.5, "num_prefix_groups": 1},
        ["shared_prefix_ratio", "1.5"],
    ),
    "e68 rate 0": (SYNTHETIC | {"load_type": "poisson", "request_rate": 0.0}, ["request_rate", "0"]),
    "poisson without a rate": (SYNTHETIC | {"load_type": "poisson"}, ["request_rate", "poisson"]),
    "constant rate without one": (SYNTHETIC, ["constant_rate", "rate", "interval"]),
    "negative interval": (SYNTHETIC | {"arrival_interval_ms": -5.0}, ["arrival_interval_ms", "-5"]),
    "synthetic cap 0": (SYNTHETIC | {"load_type": "concurrency", "concurrency": 0}, ["concurrency", "0"]),
    "request ratio 0": (
        {k: v for k, v in PACED.items() if k != "request_count"} | {"num_request_ratio": 0.0},
        ["num_request_ratio", "0"],
    ),
    "a range of KV ratios": (
        SYNTHETIC | {"load_type": "kv_capacity_fraction", "kv_load_ratio": [0.5, 1.0]},
        ["kv_load_ratio"],
    ),
    "KV ratio 0": (
        SYNTHETIC | {"load_type": "kv_capacity_fraction", "kv_load_ratio": 0.0},
        ["kv_load_ratio", "0"],
    ),
    "KV cannot hold one request": (
        SYNTHETIC | {"load_type": "kv_capacity_fraction", "kv_load_ratio": 1.0, "isl": 300},
        ["256", "301"],
    ),
}


@pytest.mark.parametrize("name", TRAFFIC)
def test_traffic_fields(name: str, tmp_path: Path) -> None:
    traffic, words = TRAFFIC[name]
    assert_says(message({}, traffic, [[ROW], [ROW]], tmp_path), words)


def pool(**fields: Any) -> dict[str, Any]:
    return {"topology": {"kind": "aggregated", "workers": fields}}


def rank(**fields: Any) -> dict[str, Any]:
    return {"engine": ENGINE | {"rank": ENGINE["rank"] | fields}}


SPECS = {
    "e20 no workers": (pool(initial_workers=0), ["initial_workers", "0"]),
    "workers missing": (pool(), ["initial_workers"]),
    "e22 negative limit": ({"max_sim_time_ms": -1.0}, ["max_sim_time_ms", "-1"]),
    "e23 SLA 0": ({"sla": {"ttft_ms": 0.0}}, ["sla", "ttft_ms", "0"]),
    "e24 SLA NaN": ({"sla": {"e2e_ms": math.nan}}, ["e2e_ms", "NaN"]),
    "c18b SLA mixed": ({"sla": {"ttft_ms": 12.0, "e2e_ms": 30.0}}, ["sla", "e2e_ms", "ttft_ms"]),
    "e25 unknown router": ({"adapters": {"placement": {"provider": "random"}}}, ["random", "round_robin"]),
    "version 2": ({"version": 2}, ["version", "2"]),
    "unknown engine key": (rank(block_sise=4), ["block_sise", "did you mean 'block_size'"]),
    "block size 0": (rank(block_size=0), ["block_size", "0"]),
    "no blocks": (rank(num_gpu_blocks=0), ["num_gpu_blocks", "0"]),
    "unknown preemption": (rank(preemption_mode="filo"), ["preemption_mode", "filo", "fifo"]),
    "unknown backend": (rank(backend="vlm"), ["backend", "vlm", "vllm"]),
    "events of later": (rank(emit_kv_events=True), ["emit_kv_events", "would change nothing"]),
    "negative pass time": (
        rank(timing_model={"type": "fixed", "prefill_ms": -1.0, "decode_ms": 1.0}),
        ["prefill_ms", "-1"],
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_spec_fields(name: str, tmp_path: Path) -> None:
    spec, words = SPECS[name]
    assert_says(message(spec, TRACE, [[ROW]], tmp_path), words)


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"spec": {}}', '{"traffic": {"source_type": "trace"}}'])
def test_payloads_that_are_none(text: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        run_replay_json(text)
    assert "\n" not in str(caught.value)


def test_a_negative_first_timestamp_is_shifted_to_zero(tmp_path: Path) -> None:
    traffic = materialise({"spec": SPEC, "traffic": TRACE}, [[row(timestamp=-5), row(timestamp=0)]], tmp_path)
    report = json.loads(run_replay_json(json.dumps(traffic)))
    assert [record["arrival_time_ms"] for record in report["per_request"]] == [0.0, 5.0]
