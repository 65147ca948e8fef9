"""`aisimulate calibrate`: from a log to a file that `simulate` takes."""

from __future__ import annotations

import json

import pytest
import yaml

from aisimulate.cli.main import main
from aisimulate.config.calibration_file import read_calibration
from aisimulate.fidelity.measured.formats import read_run
from fidelity.made_logs import requests, spec, write_records


@pytest.fixture
def folder(tmp_path):
    write_records(tmp_path / "log.jsonl", requests(count=50), prefill_scale=1.3, decode_scale=0.8)
    (tmp_path / "engine.yaml").write_text(yaml.safe_dump({"engine": spec()["engine"]}))
    return tmp_path


def calibrate(folder, *options):
    words = ["calibrate", folder / "log.jsonl", "--engine", folder / "engine.yaml", "--evaluations", 10]
    return main([str(word) for word in (*words, *options)])


def test_the_file_it_writes_makes_a_replay_agree_with_the_log(folder, capsys):
    path = folder / "calibration.yaml"
    assert calibrate(folder, "-o", path, "--fit-requests", 30, "--engine-version", "0.19.0") == 0
    out = capsys.readouterr().out
    assert "fitted on the first 30 requests, 20 held out" in out
    assert out.count("\nITL per request mean") == 1
    calibration = read_calibration(path)
    assert calibration.source.engine_version == "0.19.0"
    payload = {"spec": {**spec(), "requests": requests(count=50), "calibration": str(path)}}
    (folder / "payload.json").write_text(json.dumps(payload))
    command = ["simulate", "--payload", str(folder / "payload.json"), "--format", "json"]
    assert main(command) == 0
    report = json.loads(capsys.readouterr().out)
    measured = read_run(folder / "log.jsonl")
    for metric in ("ttft_ms", "tpot_ms", "e2e_latency_ms"):
        assert report[f"mean_{metric}"] == pytest.approx(measured.statistics(metric)["mean"], rel=0.02)
    assert report["provenance"]["calibration"]["file"] == "log.jsonl"


def test_json_has_the_calibration_and_all_errors(folder, capsys):
    assert calibrate(folder, "--format", "json", "--timing-mode", "additive") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["calibration"]["timing_mode"] == "additive"
    assert document["held_out_requests"] == 0
    assert document["errors"]["after"]["held_out"] is None
    assert abs(document["errors"]["after"]["fitted"]["tpot"]) < 0.01


def test_a_step_model_needs_no_pass_times(folder, capsys):
    rank = {name: value for name, value in spec()["engine"]["rank"].items() if name != "timing_model"}
    (folder / "engine.yaml").write_text(yaml.safe_dump({"engine": {"rank": rank}}))
    assert calibrate(folder) == 2
    assert "--table-free finds a step model instead" in capsys.readouterr().err
    assert calibrate(folder, "--table-free", "--model", "m", "--system", "s") == 0
    out = capsys.readouterr().out
    assert "model m, system s" in out
    assert "step model: constant_ms" in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--table-free", "--timing-mode", "half"), "--timing-mode half: has no effect with --table-free"),
        (("--timing-mode", "mean"), "mean"),
        (("--log-format", "aiperf"), "is no result of aiperf"),
        (("--fit-requests", "0"), "0"),
        (("--prompts", "none.jsonl"), "none.jsonl: could not be read"),
    ],
)
def test_wrong_options_are_one_line(folder, capsys, options, said):
    try:
        code = calibrate(folder, *options)
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_the_log_is_never_overwritten(folder, capsys):
    assert calibrate(folder, "-o", folder / "log.jsonl") == 2
    assert "would overwrite the input" in capsys.readouterr().err


def test_prefix_caching_without_prompts_is_told(folder, capsys):
    assert calibrate(folder, "--timing-mode", "additive") == 0
    assert "warning: enable_prefix_caching is on, and without --prompts" in capsys.readouterr().err
    rank = {**spec()["engine"]["rank"], "enable_prefix_caching": False}
    (folder / "engine.yaml").write_text(yaml.safe_dump({"engine": {"rank": rank}}))
    assert calibrate(folder, "--timing-mode", "additive") == 0
    assert "--prompts" not in capsys.readouterr().err
