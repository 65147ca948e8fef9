"""Logs with vLLM's own clocks: one clock or two, requests that did not end, names of lengths."""

from __future__ import annotations

import json

import numpy as np
import pytest

from aisimulate.core.errors import InputError
from aisimulate.fidelity.calibrate.request_log import read_log
from aisimulate.fidelity.measured.formats import read_run

# Seconds after the first arrival: arrival, queued, scheduled, first and last token; prompt and output tokens.
ROWS = [
    (0.0, 0.004, 0.005, 0.105, 1.105, 100, 11),
    (0.5, 0.502, 0.600, 0.800, 0.800, 50, 1),
    (0.2, 0.209, 0.250, 0.400, 2.400, 70, 21),
]
NAMES = ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")


def write(tmp_path, client=0.0, engine=0.0, lengths=("input_toks", "output_toks"), more=()):
    lines = []
    for arrival, *stamps, inputs, outputs in ROWS:
        row = {"arrival_time": client + arrival, lengths[0]: inputs, lengths[1]: outputs}
        row |= {name: engine + stamp for name, stamp in zip(NAMES, stamps, strict=True)}
        lines.append(json.dumps(row))
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join([*lines, *map(json.dumps, more)]) + "\n")
    return path


def test_one_clock_is_left_alone(tmp_path):
    log = read_log(write(tmp_path))
    assert log.format == "vllm-clocks"
    assert log.notes == []
    assert log.place == [0, 2, 1]
    assert log.arrival_ms == pytest.approx([0.0, 200.0, 500.0])
    assert log.ttft_ms == pytest.approx([105.0, 200.0, 300.0])
    assert log.e2e_ms == pytest.approx([1105.0, 2200.0, 300.0])
    assert log.tpot_ms[:2] == pytest.approx([100.0, 100.0])
    assert np.isnan(log.tpot_ms[2])
    assert log.scheduled_ms == pytest.approx([5.0, 250.0, 600.0])
    assert (log.input_tokens, log.output_tokens) == ([100, 70, 50], [11, 21, 1])


def test_two_clocks_are_aligned_by_the_smallest_queueing_gap(tmp_path):
    log = read_log(write(tmp_path, client=1_777_142_838.0, engine=479_748.0))
    assert "another clock" in log.notes[0]
    # The second row waited least, 2 ms, which count as none.
    assert log.ttft_ms == pytest.approx([103.0, 198.0, 298.0], abs=1e-3)
    assert log.e2e_ms == pytest.approx([1103.0, 2198.0, 298.0], abs=1e-3)


@pytest.mark.parametrize(
    "lengths", [("input_tokens", "output_tokens"), ("prompt_tokens", "completion_tokens")]
)
def test_other_names_of_lengths_are_known(tmp_path, lengths):
    assert read_log(write(tmp_path, lengths=lengths)).input_tokens == [100, 70, 50]


def test_requests_that_did_not_end_are_counted_and_left_out(tmp_path):
    unfinished = {"arrival_time": 0.6, "input_toks": 9, "output_toks": 3, "queued_ts": 0.7}
    run = read_run(write(tmp_path, more=[unfinished, {**unfinished, "last_token_ts": None}]))
    assert run.reported["completed_requests"] == {"value": 3.0}
    assert run.reported["failed_requests"] == {"value": 2.0}
    assert len(run.requests) == 3


def test_what_is_missing_or_wrong_is_named(tmp_path):
    path = write(tmp_path, more=[{"last_token_ts": 3.0, "output_toks": 2, "input_toks": 1}])
    with pytest.raises(InputError, match=r"log\.jsonl:4: arrival_time: missing"):
        read_log(path)
    path = write(tmp_path, more=[{"last_token_ts": 3.0, "output_toks": 2, "arrival_time": 1.0}])
    with pytest.raises(InputError, match=r"log\.jsonl:4: input_toks: missing"):
        read_log(path)


def test_a_request_that_is_logged_twice_is_doubted(tmp_path):
    path = write(tmp_path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for names, notes in (
        ("abc", []),
        ("aba", ["a request_id comes again (1 x): was something logged twice?"]),
    ):
        lines = [json.dumps({**row, "request_id": name}) for row, name in zip(rows, names, strict=True)]
        path.write_text("\n".join(lines))
        assert read_log(path).notes == notes
