"""Calibration from a benchmark table: what is read, fitted, written and applied."""

from __future__ import annotations

import json

import pytest

from aisimulate.cli.calibrate import main
from aisimulate.config.calibration_file import factors_at, read_calibration
from aisimulate.core.errors import InputError
from aisimulate.fidelity.table.fit import fit_table
from aisimulate.fidelity.table.loads import at_load, check_payload
from aisimulate.fidelity.table.points import LoadPoint, Means, calibration_points, fitted_point
from aisimulate.fidelity.table.rows import read_table
from aisimulate.replay.execute import execute

ENGINE = {"rank": {"timing_model": {"type": "fixed", "prefill_ms": 40.0, "decode_ms": 5.0}}}
SPEC = {"topology": {"kind": "aggregated", "workers": {"initial_workers": 1}}, "engine": ENGINE}
TRAFFIC = {"source_type": "synthetic", "isl": 64, "osl": 16, "concurrency": 2, "request_count": 20}
PAYLOAD = {"spec": SPEC, "traffic": TRAFFIC}
CSV = "concurrency,ttft_ms,tpot_ms\n2,60,7\n8,100,9\n32,300,15\n"


def written(tmp_path, text, name="bench.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "max_concurrency, mean_ttft_ms, mean_tpot_ms\n8,100,9\n2,60,7\n"),
        (
            "a.yaml",
            "rows:\n- {concurrency: 2, ttft_ms: 60, tpot_ms: 7}\n"
            "- {concurrency: 8, ttft_ms: 100, tpot_ms: 9}",
        ),
        (
            "a.json",
            '[{"concurrency": 2, "ttft_ms": 60, "tpot_ms": 7}, '
            '{"concurrency": 8, "ttft_ms": 1e2, "tpot_ms": 9}]',
        ),
    ],
)
def test_tables_are_read_in_three_formats(tmp_path, name, text):
    table = read_table(written(tmp_path, text, name))
    assert table.by == "concurrency"
    assert [(row.load, row.ttft_ms, row.tpot_ms) for row in table.rows] == [(2, 60, 7), (8, 100, 9)]
    assert table.notes == ()


def test_columns_that_are_not_used_are_told(tmp_path):
    table = read_table(written(tmp_path, "rate,ttft_ms,tpot_ms,gpu\n1.5,60,7,x\n"))
    assert (table.by, table.rows[0].load) == ("rate_rps", 1.5)
    assert table.notes[0].endswith("not used: 'gpu'")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "concurency,ttft_ms,tpot_ms\n1,2,3\n",
            "exactly one of concurrency and rate_rps is needed; did you mean 'concurrency'?",
        ),
        ("concurrency,rate,ttft_ms,tpot_ms\n1,1,2,3\n", "exactly one of concurrency and rate_rps is needed"),
        ("concurrency,ttft,tpot_ms\n1,2,3\n", "bench.csv:2: ttft_ms is missing"),
        (
            "concurrency,ttft_ms,mean_ttft_ms,tpot_ms\n1,2,2,3\n",
            "ttft_ms is given by ttft_ms and by mean_ttft_ms",
        ),
        ("concurrency,ttft_ms,tpot_ms\n1,-2,3\n", "bench.csv:2: ttft_ms '-2' is not a number above 0"),
        ("concurrency,ttft_ms,tpot_ms\n1,2,nan\n", "tpot_ms 'nan' is not a number above 0"),
        ("concurrency,ttft_ms,tpot_ms\n1.5,2,3\n", "concurrency 1.5 is not a whole number"),
        ("concurrency,ttft_ms,tpot_ms\n1,2,3\n1,2,3\n", "bench.csv:3: concurrency 1 is given twice"),
        ("concurrency,ttft_ms,tpot_ms\n1,2\n", "bench.csv:2: does not have as many fields"),
        ("concurrency,ttft_ms,tpot_ms\n", "has no rows"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, text, problem, capsys):
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert problem in str(caught.value)
    payload = written(tmp_path, json.dumps(PAYLOAD), "payload.json")
    output = tmp_path / "out.yaml"
    assert main(["--table", str(path), "--engine", str(payload), "-o", str(output)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not output.exists()


def test_one_row_is_met_and_fades_away(tmp_path):
    table = read_table(written(tmp_path, "concurrency,ttft_ms,tpot_ms\n8,100,9\n"))
    outcome = fit_table(table, PAYLOAD)
    (row,) = outcome.rows
    assert row.after == pytest.approx((0.0, 0.0), abs=1e-3)
    assert row.held_out is None
    scale, ratio = factors_at(outcome.calibration, 8)
    halfway = factors_at(outcome.calibration, 8 * 2**6)
    assert halfway == pytest.approx((scale**0.5, ratio**0.5), rel=1e-4)
    assert factors_at(outcome.calibration, 8 * 2**12) == (1.0, 1.0)
    assert "one row" in outcome.calibration.notes[0]


def test_rows_are_held_out_in_turn(tmp_path):
    outcome = fit_table(read_table(written(tmp_path, CSV)), PAYLOAD)
    assert [row.load for row in outcome.rows] == [2, 8, 32]
    middle = outcome.rows[1]
    expected = factors_at(
        fit_table(
            read_table(written(tmp_path, "concurrency,ttft_ms,tpot_ms\n2,60,7\n32,300,15\n")), PAYLOAD
        ).calibration,
        8,
    )
    replayed = execute(at_load(PAYLOAD, "concurrency", 8))
    assert middle.held_out[1] == pytest.approx(expected[0] * replayed["mean_tpot_ms"] / 9 - 1, abs=1e-6)
    assert middle.held_out[0] == pytest.approx(
        expected[0] * expected[1] * replayed["mean_ttft_ms"] / 100 - 1, abs=1e-6
    )


def test_rates_are_solved_by_replays(tmp_path):
    traffic = {
        "source_type": "synthetic",
        "isl": 64,
        "osl": 16,
        "request_rate": 1.0,
        "load_type": "poisson",
        "request_count": 60,
    }
    table = read_table(written(tmp_path, "rate_rps,ttft_ms,tpot_ms\n4,80,12\n"))
    outcome = fit_table(table, {"spec": SPEC, "traffic": traffic})
    assert outcome.rows[0].before[1] < -0.1
    assert outcome.rows[0].after == pytest.approx((0.0, 0.0), abs=1e-3)
    assert outcome.calibration.points[1].rate_rps == 4.0


def test_a_factor_is_found_where_means_do_not_grow_evenly():
    point = fitted_point(1.0, Means(90.0, 27.0), lambda scale: Means(10.0 * scale, scale**3))
    assert point.step_scale == pytest.approx(3.0, rel=1e-3)
    assert point.ttft_ratio == pytest.approx(3.0, rel=1e-3)
    with pytest.raises(InputError, match=r"load 1: no factor on the pass times from 0\.05 to 20"):
        fitted_point(1.0, Means(1.0, 1e6), lambda scale: Means(scale, scale))


def test_a_wait_that_is_not_simulated_is_not_carried_on():
    point = LoadPoint(64, 1.1, 40.0)
    assert point.is_capped
    points = calibration_points([LoadPoint(8, 1.2, 2.0), point], "concurrency")
    assert [item.ttft_ratio for item in points] == [1.0, 2.0, 10.0, 1.0]
    assert [item.load for item in points] == [8 / 4096, 8, 64, 64 * 4096]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"calibration": {}}, "spec.calibration: may not be given"),
        ({"topology": {"kind": "disaggregated"}}, "a pair of pools cannot be calibrated"),
        ({"engine": {"rank": {"decode_scale": 2.0}}}, "spec.engine.rank.decode_scale: may not be given"),
        ({"engine": {"rank": 3}}, "spec.engine.rank: 3 is not an object"),
        ({"engine": "vllm"}, "spec.engine: 'vllm' is not an object"),
        ({"topology": [1]}, r"spec.topology: \[1\] is not an object"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(changes, problem):
    with pytest.raises(InputError, match=problem):
        check_payload({"spec": {**SPEC, **changes}, "traffic": TRAFFIC})


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({"spec": None}, "spec: null is not an object"),
        ({"spec": [1]}, r"spec: \[1\] is not an object"),
        ({"spec": SPEC, "traffic": "x"}, "traffic: 'x' is not an object"),
        (
            {
                "spec": SPEC,
                "traffic": {**TRAFFIC, "source_type": "synthetic-session", "turns_per_session": "x"},
            },
            "turns_per_session: 'x' is not an integer",
        ),
    ],
)
def test_a_payload_of_another_form_is_refused_in_one_line(tmp_path, payload, problem):
    with pytest.raises(InputError, match=problem):
        fit_table(read_table(written(tmp_path, CSV)), payload)


def test_a_table_of_a_spreadsheet_is_read_and_named_without_folders(tmp_path):
    table = read_table(written(tmp_path, "\ufeff" + CSV.replace("\n", "\r\n"), "Bench.CSV"))
    assert [row.load for row in table.rows] == [2, 8, 32]
    assert table.file == "Bench.CSV"


def test_a_ttft_in_seconds_is_doubted(tmp_path):
    table = read_table(written(tmp_path, "concurrency,ttft_ms,tpot_ms\n8,0.1,9\n"))
    (note, _) = fit_table(table, PAYLOAD).calibration.notes
    assert "less than 1/10: is it in another unit (s, ms)" in note
    table = read_table(written(tmp_path, "concurrency,ttft_ms,tpot_ms\n8,1e5,9\n"))
    assert (
        "more than 10: something waits that is not simulated"
        in fit_table(table, PAYLOAD).calibration.notes[0]
    )


def test_factors_belong_to_the_load_of_a_worker(tmp_path, capsys):
    """Two workers at 16 are calibrated; one at 8 has the same batches, and so the same factors."""
    pair = {
        **PAYLOAD,
        "spec": {**SPEC, "topology": {"kind": "aggregated", "workers": {"initial_workers": 2}}},
    }
    path = written(tmp_path, "concurrency,ttft_ms,tpot_ms\n4,60,7\n16,100,9\n")
    outcome = fit_table(read_table(path), pair)
    assert [point.load for point in outcome.calibration.points[1:-1]] == [2, 8]
    assert [row.load for row in outcome.rows] == [4, 16]
    assert outcome.rows[1].after == pytest.approx((0.0, 0.0), abs=1e-3)
    found = outcome.calibration.model_dump(mode="json", exclude_none=True)
    scales = {}
    for workers, load in ((2, 16), (1, 8), (1, 16)):
        topology = {"kind": "aggregated", "workers": {"initial_workers": workers}}
        spec = {**SPEC, "topology": topology, "calibration": found}
        report = execute(at_load({"spec": spec, "traffic": TRAFFIC}, "concurrency", load))
        scales[workers, load] = report["provenance"]["calibration"]["prefill_scale"]
    assert scales[2, 16] == scales[1, 8] == pytest.approx(outcome.calibration.points[2].step_scale)
    assert scales[1, 16] != pytest.approx(scales[1, 8], rel=0.01)
    payload = written(tmp_path, json.dumps(pair), "payload.json")
    assert main(["--table", str(path), "--engine", str(payload)]) == 0
    assert "\n16 " in capsys.readouterr().out, "rows have the load that was measured"


def test_loads_replace_those_of_the_payload():
    assert at_load(PAYLOAD, "concurrency", 4)["traffic"] == {
        "source_type": "synthetic",
        "isl": 64,
        "osl": 16,
        "load_type": "concurrency",
        "concurrency": 4,
        "request_count": 40,
    }
    assert at_load(PAYLOAD, "rate_rps", 2.5)["traffic"]["request_rate"] == 2.5
    trace = {"spec": SPEC, "traffic": {"source_type": "trace", "trace_path": "x"}}
    assert at_load(trace, "concurrency", 4)["traffic"]["replay_concurrency"] == 4
    assert at_load({"spec": SPEC}, "concurrency", 4)["spec"]["max_in_flight"] == 4
    with pytest.raises(InputError, match="need a synthetic workload"):
        at_load(trace, "rate_rps", 1.0)


def test_the_command_writes_what_simulate_applies(tmp_path, capsys):
    table, payload = written(tmp_path, CSV), written(tmp_path, json.dumps(PAYLOAD), "payload.json")
    output = tmp_path / "calibration.yaml"
    arguments = ["--table", str(table), "--engine", str(payload), "-o", str(output)]
    assert main([*arguments, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    calibration = read_calibration(output)
    assert document["calibration"]["points"][1]["concurrency"] == 2.0
    assert calibration.source.rows == 3
    spec = {**SPEC, "calibration": calibration.model_dump(mode="json", exclude_none=True)}
    report = execute({**at_load(PAYLOAD, "concurrency", 8), "spec": spec})
    assert report["mean_tpot_ms"] == pytest.approx(9.0, rel=1e-3)
    assert report["mean_ttft_ms"] == pytest.approx(100.0, rel=1e-3)
    assert main(arguments) == 0
    assert "pass times" in capsys.readouterr().out


def test_a_concurrency_that_no_replay_can_hold_is_refused(tmp_path):
    with pytest.raises(InputError, match=r":2: concurrency 1,000,000 is more than 100,000") as refused:
        read_table(written(tmp_path, "concurrency,ttft_ms,tpot_ms\n1000000,60,7\n"))
    assert "\n" not in str(refused.value)


def test_a_table_in_seconds_asks_about_units(tmp_path):
    table = read_table(written(tmp_path, "concurrency,ttft_ms,tpot_ms\n2,0.06,0.007\n"))
    with pytest.raises(InputError, match=r"TPOT of 0.007 ms: is it in another unit \(s, ms\)\?"):
        fit_table(table, PAYLOAD)
