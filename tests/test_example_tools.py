"""The example tools: a sine trace is the one that was measured, the sweep prints what the library finds."""

import importlib.util
import json
import math
from pathlib import Path

import pytest

from aisimulate.forecast import PRESETS
from aisimulate.spica.load_predictor_sweep import build_windows, evaluate_preset
from aisimulate.workload.formats import load_trace

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / "examples" / "aisimulate" / "spica" / "tools"
MEASURED = json.loads((ROOT / "tests" / "data" / "forecast" / "reference_series.json").read_text())["series"]
LIGHT = [name for name in PRESETS if not name.startswith(("arima", "prophet"))]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SINE = tool("sine_trace")
SWEEP = tool("sweep_load_predictors")


def written(tmp_path, *options, name="sine.jsonl"):
    path = tmp_path / name
    assert SINE.main([str(path), *options]) == 0
    return path


@pytest.fixture(scope="module")
def sine(tmp_path_factory):
    return written(tmp_path_factory.mktemp("sine"))


@pytest.mark.parametrize("interval_s", [30, 60, 180, 600])
def test_the_default_sine_is_the_measured_one(sine, interval_s):
    assert build_windows(sine, interval_s) == [
        tuple(row) for row in MEASURED[f"sine@{interval_s}"]["windows"]
    ]


def test_a_sine_is_a_valid_trace_in_order(sine):
    trace = load_trace([sine], "mooncake")
    times = [session.arrival_ms for session in trace.sessions]
    assert (len(times), trace.notes, times) == (32400, [], sorted(times))
    assert {len(session.turns[0].block_ids) for session in trace.sessions} == {8}


def test_the_options_of_a_sine_act(tmp_path):
    options = ("--duration-s", "100", "--period-s", "50", "--base-rate", "5", "--amplitude", "9")
    path = written(tmp_path, *options, "--input-tokens", "600", "--output-tokens", "7")
    counts = [window.num_req for window in build_windows(path, 1)]
    expected = [max(0, round(5 + 9 * math.sin(2 * math.pi * second / 50))) for second in range(100)]
    assert counts == expected[: len(counts)] and sum(counts) == sum(expected)
    row = json.loads(path.read_text().splitlines()[0])
    assert (row["input_length"], row["output_length"], row["hash_ids"]) == (600, 7, [0, 1])


def test_a_seed_repeats_and_poisson_counts_scatter_around_the_rate(tmp_path):
    options = ("--duration-s", "2000", "--amplitude", "0", "--arrivals", "poisson", "--input-tokens", "1")
    first = written(tmp_path, *options, name="1").read_bytes()
    assert written(tmp_path, *options, name="2").read_bytes() == first
    assert written(tmp_path, *options, "--seed", "1", name="3").read_bytes() != first
    counts = [window.num_req for window in build_windows(tmp_path / "1", 1)]
    mean = sum(counts) / 2000
    variance = sum((count - mean) ** 2 for count in counts) / 2000
    assert mean == pytest.approx(6, abs=3 * math.sqrt(6 / 2000))
    assert variance == pytest.approx(6, rel=0.15)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--duration-s", "0"], "--duration-s must be at least 1, got 0"),
        (["--period-s", "0"], "--period-s must be a finite number above 0, got 0.0"),
        (["--base-rate", "nan"], "--base-rate must be a finite number 0 or more, got nan"),
        (["--amplitude", "-1"], "--amplitude must be a finite number 0 or more, got -1.0"),
        (["--input-tokens", "0"], "--input-tokens must be at least 1, got 0"),
        (
            ["--base-rate", "1e9"],
            "--base-rate, --amplitude and --duration-s ask for more than 10,000,000 requests",
        ),
        (
            ["--base-rate", "0.1", "--amplitude", "0"],
            "--base-rate and --amplitude leave no request: each second's rate rounds to 0",
        ),
    ],
)
def test_bad_options_of_a_sine(tmp_path, capsys, options, told):
    path = tmp_path / "sine.jsonl"
    assert SINE.main([str(path), *options]) == 2
    assert capsys.readouterr().err == f"sine_trace.py: error: {told}\n"
    assert not path.exists()


def test_a_sine_replaces_nothing_unasked(tmp_path, capsys):
    path = tmp_path / "mine"
    path.write_text("precious")
    assert SINE.main([str(path)]) == 2
    assert "exists already (--overwrite replaces it)" in capsys.readouterr().err
    assert path.read_text() == "precious"
    assert SINE.main([str(path), "--overwrite", "--duration-s", "1"]) == 0
    assert len(path.read_text().splitlines()) == 6


def swept(capsys, *arguments):
    code = SWEEP.main([*map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_sweep_prints_the_measured_losses(sine, capsys):
    presets = [option for name in LIGHT for option in ("--preset", name)]
    intervals = ("--interval-s", 180, "--interval-s", 600)
    code, out, err = swept(capsys, sine, *intervals, *presets, "--format", "json")
    assert (code, err) == (0, "")
    for interval in json.loads(out)["intervals"]:
        stored = MEASURED[f"sine@{interval['interval_s']:g}"]["losses"]
        assert list(interval["presets"]) == LIGHT
        for name, told in interval["presets"].items():
            if name in stored:
                assert told["loss"] == pytest.approx(stored[name], rel=1e-6)
        assert interval["best"] == min(LIGHT, key=lambda name: interval["presets"][name]["loss"])


def test_the_sweep_prints_a_table(sine, capsys):
    options = ("--preset", "constant_last", "--preset", "pool_log1p", "--preset", "kalman_default_raw")
    code, out, err = swept(capsys, sine, "--interval-s", 60, "--interval-s", 600, *options)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["loss", "60", "s", "600", "s"]
    assert lines[1].split() == ["constant_last", "0.1756", "0.2539"]
    ours = [
        evaluate_preset("pool_log1p", build_windows(sine, interval_s), warmup=5) for interval_s in (60, 600)
    ]
    assert lines[2].split() == ["pool_log1p", *(f"{loss:.4f}*" for loss in ours)]
    assert lines[4].split() == ["windows", "scored", "85", "4"]
    assert lines[5] == "600 s: only 4 windows to judge by"


def test_the_sweep_says_what_it_left_out(sine, capsys, monkeypatch):
    def missing(module):
        raise ModuleNotFoundError(f"No module named {module!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    code, out, err = swept(capsys, sine, "--preset", "arima_raw", "--preset", "constant_last")
    assert code == 0 and "arima_raw" not in out
    assert err.startswith("load predictor candidate arima_raw skipped: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["SINE", "--preset", "pol_log1p"], "did you mean 'pool_log1p'?"),
        (["SINE", "--interval-s", "0"], "--interval-s must be a finite number above 0, got 0"),
        (["SINE", "--interval-s", "0.001"], "would cut the trace into 5,3"),
        (["SINE", "--trace-format", "azur"], "did you mean 'azure'?"),
    ],
)
def test_bad_input_of_the_sweep(sine, capsys, arguments, told):
    code, out, err = swept(capsys, *[str(sine) if word == "SINE" else word for word in arguments])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("sweep_load_predictors.py: error: ") and told in err


def test_a_trace_without_times(tmp_path, capsys):
    path = tmp_path / "t.jsonl"
    path.write_text('{"input_length": 1, "output_length": 1, "hash_ids": [1]}\n')
    assert swept(capsys, path)[2] == f"sweep_load_predictors.py: error: {path}: no request has a time\n"
