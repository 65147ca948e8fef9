"""Every tool's records of single requests become the same log."""

from __future__ import annotations

import json

import numpy as np
import pytest

from aisimulate.core.errors import InputError
from aisimulate.fidelity.calibrate.request_log import read_log

from . import made_results as made

FILES = {
    "vllm": ("result.json", made.vllm),
    "aiperf-records": ("profile_export.jsonl", made.aiperf_records),
    "guidellm": ("benchmarks.json", made.guidellm),
    "inference-perf-requests": ("per_request_lifecycle_metrics.json", made.inference_perf_requests),
}


@pytest.mark.parametrize("tool", FILES)
def test_a_log_of_any_tool_is_read_alike(tmp_path, tool):
    name, text = FILES[tool]
    path = tmp_path / name
    path.write_text(text())
    log = read_log(path)
    assert log.format == tool
    assert log.arrival_ms == pytest.approx([arrival for arrival, _, _ in made.REQUESTS], abs=1e-3)
    assert log.ttft_ms == pytest.approx(made.TTFT, abs=1e-3)
    assert log.e2e_ms == pytest.approx(made.E2E, abs=1e-3)
    assert log.tpot_ms == pytest.approx(made.TPOT, abs=1e-3)
    assert list(log.input_tokens) == made.INPUTS
    assert list(log.output_tokens) == made.OUTPUTS
    assert log.file == name
    assert len(log.sha256) == 64


def test_a_file_of_totals_is_refused(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(made.vllm(detailed=False))
    with pytest.raises(InputError, match=r"result\.json: has no single requests to calibrate with"):
        read_log(path)


def test_the_workload_is_that_of_the_log(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(made.vllm())
    workload = read_log(path).workload(3)
    assert [session.arrival_ms for session in workload.sessions] == pytest.approx(
        [0.0, 50.0, 110.0], abs=1e-3
    )
    assert [session.turns[0].output_tokens for session in workload.sessions] == made.OUTPUTS[:3]
    assert np.isfinite(read_log(path).first_token_ms).all()


def test_starts_that_sglang_does_not_tell_follow_from_the_cap(tmp_path):
    path = tmp_path / "result.jsonl"
    path.write_text(made.sglang())
    log = read_log(path)
    assert log.arrival_ms == pytest.approx([0.0] * 5)  # of eight that may be in flight
    assert "starts are not told" in log.notes[0]
    path.write_text(json.dumps({**json.loads(made.sglang()), "max_concurrency": 2}))
    # The third is sent when the second ends, and so on.
    second = made.E2E[1]
    first = made.E2E[0]
    expected = [0.0, 0.0, second, first, first + made.E2E[3]]
    assert sorted(read_log(path).arrival_ms) == pytest.approx(sorted(expected), abs=1e-3)
    path.write_text(json.dumps({**json.loads(made.sglang()), "request_rate": 4.0}))
    with pytest.raises(InputError, match="does not tell the arrival of each request"):
        read_log(path)
    told = {**json.loads(made.sglang()), "request_rate": 4.0, "start_times": [5.0, 5.1, 5.15, 5.2, 5.3, 5.4]}
    path.write_text(json.dumps(told))
    assert read_log(path).arrival_ms == pytest.approx([0.0, 100.0, 200.0, 300.0, 400.0])
