"""Times in another unit and absurd speed-ups are asked about, by every command that reads a trace."""

from __future__ import annotations

import json

import pytest
from spica_walk import PINNED, changed

from aisimulate.cli.main import main
from aisimulate.core.traffic import Session, Turn
from aisimulate.replay.execute import execute
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.plan import plan_search
from aisimulate.workload.time_doubts import time_doubts

ROW = {"input_length": 8, "output_length": 2, "hash_ids": [1]}
SECONDS = "100 sessions in 0.0495 s are 2,020 per second: times are taken as ms; are they s?"
RANK = {
    "num_gpu_blocks": 64,
    "block_size": 16,
    "timing_model": {"type": "fixed", "prefill_ms": 1.0, "decode_ms": 1.0},
}
SPEC = {
    "version": 1,
    "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
    "engine": {"dp_size": 1, "tensor_parallel_size": 1, "rank": RANK},
}


@pytest.fixture
def in_seconds(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({**ROW, "timestamp": n * 0.5}) + "\n" for n in range(100)))
    return str(path)


def sessions(count, gap_ms):
    return [Session(str(n), [Turn(8, 2, None)], n * gap_ms) for n in range(count)]


@pytest.mark.parametrize(
    ("count", "gap_ms", "trace_format", "speedup", "asked"),
    [
        (20, 64_000, "burstgpt", 1.0, "times are taken as s; are they ms?"),
        (20, 64_000, "mooncake", 1.0, "times are taken as ms; are they us?"),
        (19, 64_000, "mooncake", 1.0, None),
        (20, 62_000, "mooncake", 100.0, None),
        (100, 0.5, "mooncake", 0.001, None),
        (100, 100.0, "mooncake", 0.0001, "is arrival_speedup_ratio 0.0001 meant?"),
        (100, 100.0, "azure", 1e6, "is arrival_speedup_ratio 1e+06 meant?"),
        (100, 100.0, "mooncake", 100.0, None),
        (100, 0.0, "mooncake", 1.0, None),
    ],
)
def test_odd_rates(count, gap_ms, trace_format, speedup, asked):
    found = time_doubts(sessions(count, gap_ms), trace_format, speedup)
    assert (asked is None) == (found == [])
    assert asked is None or found[0].endswith(asked)


def test_a_search_asks(in_seconds):
    def notes(**workload):
        workload = {"trace_path": in_seconds, **workload}
        plan = plan_search(SmartSearchConfig.model_validate(changed(PINNED, {"workload": workload})))
        return plan.notes

    assert SECONDS in notes()
    for answered in ({"arrival_speedup_ratio": 0.001}, {"replay_concurrency": 2}):
        assert SECONDS not in notes(**answered)


def test_a_replay_asks(in_seconds):
    traffic = {"source_type": "trace", "trace_path": in_seconds, "trace_block_size": 512}
    assert SECONDS in execute({"spec": SPEC, "traffic": traffic})["notes"]
    assert SECONDS not in execute({"spec": SPEC, "traffic": {**traffic, "replay_concurrency": 4}}).get(
        "notes", []
    )


@pytest.mark.parametrize("action", ["stats", "validate"])
def test_looking_at_a_trace_asks(in_seconds, action, capsys):
    assert main(["trace", action, in_seconds]) == 0
    assert capsys.readouterr().err == f"note: {SECONDS}\n"


def test_bounds_in_seconds_are_asked_about():
    sla = {"ttft_ms": 2.0, "itl_ms": 0.03}
    asked = [
        f"sla.{name}: {value:g} ms is less than any engine takes: are these seconds?"
        for name, value in sla.items()
    ]
    plan = plan_search(SmartSearchConfig.model_validate(changed(PINNED, {"goal.sla": sla})))
    assert [note for note in plan.notes if "seconds" in note] == [f"goal.{text}" for text in asked]
    requests = [{"id": "a", "arrival_time_ms": 0, "input_tokens": 8, "output_tokens": 3}]
    report = execute({**SPEC, "sla": sla, "requests": requests})
    assert [note for note in report["notes"] if "seconds" in note] == [f"spec.{text}" for text in asked]
    fine = execute({**SPEC, "sla": {"ttft_ms": 5.0, "itl_ms": 0.5}, "requests": requests})
    assert not [note for note in fine.get("notes", []) if "seconds" in note]
