"""Logs that cannot be right are refused by request, or doubted: order of instants, lengths, units."""

from __future__ import annotations

import json

import pytest

from aisimulate.core.errors import InputError
from aisimulate.fidelity.calibrate.calibration import Options
from aisimulate.fidelity.calibrate.request_log import read_log

from .made_logs import calibrated, requests, write_records

STAMPS = ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")


def clocks(tmp_path, stamps=(0.0, 0.1, 0.2, 1.0), arrival=0.0, lengths=(50, 9)):
    """Three requests, the second with other values than the others."""
    lines = []
    for number in range(3):
        values = stamps if number == 1 else (0.0, 0.1, 0.2, 1.0)
        row = {"arrival_time": 1000.0 + number + (arrival if number == 1 else 0.0)}
        row |= {name: 1000.0 + number + value for name, value in zip(STAMPS, values, strict=True)}
        inputs, outputs = lengths if number == 1 else (50, 9)
        lines.append(json.dumps({**row, "input_toks": inputs, "output_toks": outputs}))
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_what_is_right_is_read(tmp_path):
    assert len(read_log(clocks(tmp_path))) == 3
    assert len(read_log(clocks(tmp_path, stamps=(0.0, 0.201, 0.2, 0.199)))) == 3, "rounded to ms"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stamps": (0.0, 0.1, 0.6, 0.5)}, "request 2: its last token came before its first"),
        ({"stamps": (0.0, 0.3, 0.2, 1.0)}, "request 2: it was scheduled after its first token"),
        ({"stamps": (0.0, 0.1, 0.2, 1e6)}, "request 2: it lasted for more than a week"),
        ({"arrival": 1e6}, "request 1: it lasted for more than a week: are clocks or units mixed?"),
        ({"arrival": -1e9}, "log.jsonl:2: arrival_time: -999998999.0 is negative"),
        ({"lengths": (50, -9)}, "log.jsonl:2: output_toks: -9 is negative"),
        ({"lengths": (50, 2.5)}, "request 2: output of 2.5 tokens"),
        ({"lengths": (-1, 9)}, "log.jsonl:2: input_toks: -1 is negative"),
        ({"lengths": (10**30, 9)}, "request 2: prompt of 1e+30 tokens"),
    ],
)
def test_what_cannot_be_is_refused_by_request(tmp_path, changes, said):
    with pytest.raises(InputError) as refused:
        read_log(clocks(tmp_path, **changes))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_first_token_before_the_arrival_is_refused(tmp_path):
    path = write_records(tmp_path / "log.jsonl", requests(count=4))
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records[2]["arrival_time_ms"] = records[2]["first_token_ms"] + 40.0
    records[2]["ttft_ms"] = None
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(InputError, match="request 3: its first token came before it arrived"):
        read_log(path)


def in_ms(row):
    return row | {name: 1000.0 * row[name] for name in ("arrival_time", *STAMPS)}


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_one_row_in_ms_among_rows_in_s_is_refused(tmp_path, wrong):
    rows = [json.loads(line) for line in clocks(tmp_path).read_text().splitlines()]
    rows[wrong] = in_ms(rows[wrong])
    path = tmp_path / "mixed.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match="are clocks or units mixed") as refused:
        read_log(path)
    assert "\n" not in str(refused.value)


def test_a_request_with_one_long_gap_is_no_other_unit(tmp_path):
    """Preempted after its first of two tokens for some seconds."""
    assert len(read_log(clocks(tmp_path, stamps=(0.0, 0.1, 0.2, 20.0), lengths=(50, 2)))) == 3


def test_an_offset_that_no_client_waits_is_refused(tmp_path):
    path = write_records(tmp_path / "log.jsonl", requests(count=40))
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        for name in ("ttft_ms", "e2e_latency_ms", "first_token_ms", "last_token_ms"):
            record[name] += 11_000.0
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(InputError, match=r"clients would see everything .* more than 10 s"):
        calibrated(path, Options(evaluations=2, timing_mode="additive"))


def test_times_in_another_unit_are_refused(tmp_path):
    made = clocks(tmp_path).read_text().splitlines()
    rows = [json.loads(line) for line in made]
    path = tmp_path / "ms.jsonl"
    path.write_text("\n".join(map(json.dumps, map(in_ms, rows))))
    with pytest.raises(InputError, match=r"is at its bound 3, .*in another unit"):
        calibrated(path, Options(evaluations=2, timing_mode="additive"))


def test_requests_that_the_settings_cannot_serve_are_told(tmp_path):
    path = write_records(tmp_path / "log.jsonl", requests(count=20))
    options = Options(evaluations=2, timing_mode="additive")
    served = calibrated(path, options).calibration.notes
    lost = calibrated(path, options, num_gpu_blocks=40).calibration.notes
    assert not any("cannot be served" in note for note in served)
    assert any("of the 20 requests cannot be served with these settings" in note for note in lost)
