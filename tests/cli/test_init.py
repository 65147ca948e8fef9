"""`aisimulate init`: what it writes loads and can be searched, or it says in one line what is wrong."""

from __future__ import annotations

import io
import itertools

import pytest
import yaml

from aisimulate.cli.init import main
from aisimulate.cli.spica import load_config

MODEL = ["--model", "meta-llama/Meta-Llama-3.1-8B", "--gpu", "h200_sxm", "--gpus", "4"]
SYNTHETIC = ["--isl", "512", "--osl", "64"]
TRACE = "examples/aisimulate/spica/traces/mooncake_conversation_1000.jsonl"
SLA = ["--ttft-ms", "1000", "--itl-ms", "30"]


@pytest.fixture
def no_enumeration(monkeypatch):
    """Leave the enumeration of deployments out where only the file matters."""
    monkeypatch.setattr("aisimulate.cli.init.plan_search", lambda config: config)
    monkeypatch.setattr("aisimulate.cli.init.plan_lines", lambda plan: [])


def written(tmp_path, *options):
    path = tmp_path / "search.yaml"
    assert main([*MODEL, *options, "-o", str(path), "--overwrite"]) == 0
    return load_config(path), path.read_text()


LOADS = (["--request-rate", "5"], ["--concurrency", "8"], ["--kv-load"])
BOUNDS = ([], SLA, ["--e2e-ms", "5000"])
GOALS = ([], ["--goal", "throughput"], ["--goal", "pareto"], ["--goal", "e2e_latency"])
MODES = (["--mode", "agg"], ["--mode", "disagg"], ["--backend", "vllm,sglang,trtllm"])


@pytest.mark.parametrize("options", list(itertools.product(LOADS, BOUNDS, GOALS, MODES)))
def test_every_combination_loads(tmp_path, no_enumeration, options):
    config, text = written(tmp_path, *SYNTHETIC, *itertools.chain(*options))
    load, bounds, goal, _ = options
    assert (config.workload.isl, config.workload.osl) == (512, 64)
    assert (config.goal.sla is None) is (not bounds)
    if goal:
        assert config.goal.target == goal[1]
    elif bounds:
        assert config.goal.target == "goodput_per_gpu"
    else:
        assert config.goal.target == ("pareto" if load == ["--kv-load"] else "throughput_per_gpu")
    assert all(line == line.rstrip() and len(line) <= 110 for line in text.splitlines())


def test_bounds_keep_every_digit(tmp_path, no_enumeration):
    given = ["--ttft-ms", "1234567.25", "--itl-ms", "1e-07"]
    config, text = written(tmp_path, *SYNTHETIC, "--concurrency", "1", *given)
    assert (config.goal.sla.ttft_ms, config.goal.sla.itl_ms) == (1234567.25, 1e-07)
    _, text = written(tmp_path, *SYNTHETIC, "--concurrency", "1", "--e2e-ms", "1e7")
    assert "e2e_ms: 10000000\n" in text


def test_a_trace_and_its_cap(tmp_path, no_enumeration):
    config, _ = written(tmp_path, "--trace", TRACE, *SLA)
    assert config.workload.trace_path == TRACE
    config, _ = written(tmp_path, "--trace", TRACE, "--trace-format", "mooncake-delta", "--concurrency", "4")
    assert (config.workload.replay_concurrency, config.workload.trace_format) == (4, "mooncake-delta")


def test_hostile_names_are_quoted(tmp_path, no_enumeration):
    path = tmp_path / "search.yaml"
    name = 'a: "b" # {c}\\ \u00e9'
    given = ["--model", name, "--gpu", "yes", "--gpus", "4", *SYNTHETIC, "--concurrency", "8"]
    assert main([*given, "-o", str(path)]) == 0
    space = yaml.safe_load(path.read_text())["search_space"]
    assert (space["model_name"], space["hardware_sku"]) == (name, "yes")


def test_what_it_writes_can_be_searched(capsys):
    """The deployments are enumerated before anything is written, so that names are known to be right."""
    assert main([*MODEL, *SYNTHETIC, "--concurrency", "8", "--mode", "agg"]) == 0
    captured = capsys.readouterr()
    assert "branch agg: " in captured.err
    assert captured.out.startswith("# What may be deployed.")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([*MODEL], "missing: --trace, or --isl and --osl with a load"),
        (["--gpus", "2", "--trace", TRACE], "missing: --model, --gpu"),
        ([*MODEL, *SYNTHETIC], "needs one of --request-rate, --concurrency, --kv-load; got none"),
        ([*MODEL, *SYNTHETIC, "--concurrency", "1", "--kv-load"], "got --concurrency, --kv-load"),
        ([*MODEL, "--isl", "5", "--concurrency", "1"], "--isl and --osl: synthetic traffic needs both"),
        ([*MODEL, "--trace", TRACE, "--isl", "5"], "--isl: has no effect with --trace"),
        ([*MODEL, *SYNTHETIC, "--trace-format", "azure"], "--trace-format: has no effect without --trace"),
        ([*MODEL, *SYNTHETIC, "--request-rate", "-3"], "workload.request_rate"),
        ([*MODEL, *SYNTHETIC, "--request-rate", "0"], "request_rate must be positive, got 0.0"),
        ([*MODEL, *SYNTHETIC, "--concurrency", "1", "--goal", "goodput"], "require an SLA"),
        (["--overwrite", *MODEL, *SYNTHETIC], "--overwrite: has no effect without --output"),
        ([*MODEL[:3], "h2000", *MODEL[4:], *SYNTHETIC, "--kv-load"], "did you mean 'h200_sxm'"),
    ],
)
def test_what_it_refuses_is_one_line(monkeypatch, capsys, options, problem):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(options) == 2
    captured = capsys.readouterr()
    assert problem in captured.err.splitlines()[-1]
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_an_existing_file_stays(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text("mine")
    assert main([*MODEL, *SYNTHETIC, "--kv-load", "-o", str(path)]) == 2
    assert path.read_text() == "mine"
    assert "exists already" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_it_asks_for_what_is_missing(monkeypatch, no_enumeration, capsys):
    answers = [
        "",
        "meta-llama/Meta-Llama-3.1-8B",
        "h200_sxm",
        "many",
        "8",
        "",
        "1024",
        "128",
        "2.5",
        "900",
        "40",
    ]
    monkeypatch.setattr("sys.stdin", Terminal("\n".join(answers) + "\n"))
    assert main([]) == 0
    captured = capsys.readouterr()
    config = yaml.safe_load(captured.out)
    assert config["search_space"]["gpu_budget"] == 8
    assert config["workload"]["request_rate"] == 2.5
    assert config["goal"] == {"target": "goodput_per_gpu", "sla": {"ttft_ms": 900, "itl_ms": 40}}
    assert "'many' is not a whole number" in captured.err


def test_answers_that_end_early_are_no_traceback(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Terminal("model\n"))
    assert main([]) == 2
    assert "the answers ended before the questions" in capsys.readouterr().err


def test_a_rate_of_nothing_is_told_as_such(capsys, no_enumeration):
    assert main([*MODEL, *SYNTHETIC, "--request-rate", "0"]) == 2
    assert "request_rate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "gpu", "included"),
    [
        ("Qwen/Qwen3-30B-A3B", "h200_sxm", True),
        ("deepseek-ai/DeepSeek-V3", "h200_sxm", False),
        ("meta-llama/Meta-Llama-3.1-8B", "h200_sxm", False),
    ],
)
def test_experts_that_fit_one_gpu_are_tried_on_one(tmp_path, no_enumeration, model, gpu, included):
    config, text = written(tmp_path, *SYNTHETIC, "--concurrency", "8", "--model", model, "--gpu", gpu)
    assert config.search_space.include_single_gpu_moe is included
    assert ("include_single_gpu_moe: true  " in text) is included
