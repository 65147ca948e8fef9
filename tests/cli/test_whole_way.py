"""From nothing to a deployment, as a new user goes: init, spica, report, export."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from aisimulate.cli.main import main

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
SMALL = [
    "--set",
    "sweep.max_rounds=1",
    "--set",
    "sweep.candidates_per_round=2",
    "--set",
    "sweep.parallel_evals=1",
]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path / "runs"))
    return tmp_path


def documented_commands():
    section = DOCUMENT.read_text().partition("## From nothing to a deployment")[2]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1].replace("\\\n", " ")
    return [shlex.split(line) for line in block.splitlines()]


def test_the_documented_way_works_as_written(own_folder, capsys):
    for program, *words in documented_commands():
        assert program == "aisimulate"
        assert main(words) == 0, capsys.readouterr().err
    assert (own_folder / "result.html").stat().st_size > 1e6
    assert "verify on hardware" in capsys.readouterr().out
    graph = yaml.safe_load((own_folder / "deploy" / "dynamo.yaml").read_text())
    assert graph["kind"] == "DynamoGraphDeployment"


def go(own_folder, init, spica, target):
    """Run the whole way; return the exported files."""
    traffic = ["--isl", "512", "--osl", "32", "--ttft-ms", "2000", "--itl-ms", "60"]
    assert main(["init", *init, *traffic, "-o", "search.yaml"]) == 0
    assert main(["spica", "--config", "search.yaml", *SMALL, *spica, "--quiet"]) == 0
    assert main(["report", "last", "-o", "page.html"]) == 0
    assert main(["export", "last", "best", "--to", target, "-o", "out"]) == 0
    return {path.name: path.read_text() for path in (own_folder / "out").iterdir()}


def test_experts_in_a_pair_of_pools(own_folder):
    init = ["--model", "Qwen/Qwen3-30B-A3B", "--gpu", "h200_sxm", "--gpus", "4", "--mode", "disagg"]
    files = go(own_folder, [*init, "--concurrency", "8"], [], "dynamo")
    components = yaml.safe_load(files["dynamo.yaml"])["spec"]["components"]
    assert [item["type"] for item in components] == ["frontend", "prefill", "decode"]
    assert "NixlConnector" in files["dynamo.yaml"]


def test_a_candidate_with_a_planner(own_folder):
    init = ["--model", "meta-llama/Meta-Llama-3.1-8B", "--gpu", "h200_sxm", "--gpus", "2", "--mode", "agg"]
    planner = [
        "--set",
        "search_space.planner_scaling_policy=[load_180_5]",
        "--set",
        "workload.num_request_ratio=20",
    ]
    files = go(own_folder, [*init, "--request-rate", "4"], planner, "dynamo")
    first, graph = yaml.safe_load_all(files["dynamo.yaml"])
    assert '"enable_load_scaling": true' in first["data"]["planner.json"]
    assert [item["type"] for item in graph["spec"]["components"]] == ["frontend", "worker", "planner"]


def test_a_candidate_is_replayed_alone_as_it_was_in_the_search(own_folder, capsys):
    init = ["--model", "meta-llama/Meta-Llama-3.1-8B", "--gpu", "h200_sxm", "--gpus", "2", "--mode", "agg"]
    scaling = ["--set", "search_space.planner_scaling_policy=[direct_load_180_5]", "--output", "found.json"]
    files = go(own_folder, [*init, "--request-rate", "4"], scaling, "replay")
    assert [*files] == ["replay.json"]
    capsys.readouterr()
    options = ["--payload", "out/replay.json", "--decisions", "decisions.jsonl", "--format", "json"]
    assert main(["simulate", *options]) == 0
    report = json.loads(capsys.readouterr().out)
    found = json.loads((own_folder / "found.json").read_text())
    best = next(one for one in found["attempts"] if one["id"] == found["ranking"][0])
    same = ("mean_ttft_ms", "p99_itl_ms", "gpu_hours", "avg_gpu", "planner_total_ticks")
    assert {name: report[name] for name in same} == {name: best["metrics"][name] for name in same}
    assert len(report["per_request"]) == report["num_requests"]
    decisions = (own_folder / "decisions.jsonl").read_text().splitlines()
    assert len(decisions) == report["planner_total_ticks"] > 0
