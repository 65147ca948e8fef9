"""What a recorded search rests on is replaced by no command, and `last` is the run changed last."""

from __future__ import annotations

import hashlib
import os

import pytest

import aisimulate
from aisimulate.cli.main import main
from aisimulate.cli.run_files import all_runs, find_run
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.run_facts import changed_inputs
from tests.api.test_api import SEARCH
from tests.page.made_run import made_run


@pytest.fixture
def trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "moon.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 8, "output_length": 2, "hash_ids": [1]}\n')
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    made_run(
        tmp_path / "made.sqlite", 12, model=str(tmp_path / "model"), trace=str(path), target="throughput"
    )
    return path


WRITERS = [
    ["runs", "export", "made.sqlite", "--format", "csv", "--output"],
    ["report", "made.sqlite", "--overwrite", "-o"],
    ["whatif", "made.sqlite", "--html"],
]


@pytest.mark.parametrize("name", ["moon.jsonl", "made.sqlite", "model/config.json"])
@pytest.mark.parametrize("command", WRITERS, ids=lambda command: command[0])
def test_no_command_replaces_an_input_of_a_record(command, name, trace, tmp_path, capsys):
    before = (tmp_path / name).read_bytes()
    assert main([*command, name]) == 2
    said = capsys.readouterr()
    assert "would overwrite the input" in said.err
    assert (said.out, (tmp_path / name).read_bytes()) == ("", before)


def test_init_does_not_replace_its_trace(trace, capsys):
    before = trace.read_bytes()
    options = ["--model", "meta-llama/Meta-Llama-3.1-8B", "--gpu", "h200_sxm", "--gpus", "1", "--overwrite"]
    assert main(["init", *options, "--trace", "moon.jsonl", "-o", "moon.jsonl"]) == 2
    assert "would overwrite the input moon.jsonl" in capsys.readouterr().err
    assert trace.read_bytes() == before


def test_a_search_does_not_replace_its_model(trace, capsys):
    config = trace.parent / "search.yaml"
    config.write_text(
        "search_space: {model_name: model, hardware_sku: h200_sxm, gpu_budget: 1}\n"
        "workload: {trace_path: moon.jsonl}\n"
    )
    assert main(["spica", "--config", "search.yaml", "--no-run", "-o", "model/config.json"]) == 2
    assert "would overwrite the input model/config.json" in capsys.readouterr().err


def test_last_is_the_run_changed_last_whatever_it_is_called(tmp_path, monkeypatch):
    monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path))
    for name, changed_s in (("prod", 100), ("20260101-000000", 200), ("20250101-000000", 200), ("zoo", 150)):
        path = tmp_path / f"{name}.sqlite"
        path.touch()
        os.utime(path, (changed_s, changed_s))
    assert [path.stem for path in all_runs()] == ["prod", "zoo", "20250101-000000", "20260101-000000"]
    assert find_run("last").stem == "20260101-000000"


ROWS = "".join(
    f'{{"timestamp": {at}, "input_length": 512, "output_length": 4, "hash_ids": [{at}]}}\n' for at in range(4)
)
SEARCHED = {
    **SEARCH,
    "workload": {"trace_path": "moon.jsonl"},
    "sweep": {"max_rounds": 1, "candidates_per_round": 1, "parallel_evals": 1},
}


def test_a_trace_that_was_changed_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    moon = tmp_path / "moon.jsonl"
    moon.write_text(ROWS)
    aisimulate.recommend(SEARCHED, run="real.sqlite")
    replay = ["runs", "replay", "real.sqlite", "best"]
    assert main(replay) == 0
    moon.write_text(ROWS.replace("512", "300"))
    problem = f"{moon}: the search was made with another trace"
    commands = (
        replay,
        ["whatif", "real.sqlite", "--only", "kv"],
        ["export", "real.sqlite", "best", "--to", "replay"],
    )
    for command in commands:
        capsys.readouterr()
        assert main(command) == 2
        said = capsys.readouterr()
        assert (said.out, len(said.err.splitlines())) == ("", 1)
        assert problem in said.err
    assert main(["report", "real.sqlite", "--inside", "1", "-o", "page.html"]) == 0
    assert problem in capsys.readouterr().err
    assert "moon.jsonl: the search was made with another trace" in (tmp_path / "page.html").read_text()


def test_a_model_that_was_changed_is_named(trace):
    asked = SmartSearchConfig.model_validate(
        {
            "search_space": {"model_name": "model", "hardware_sku": "h200_sxm", "gpu_budget": 1},
            "workload": {"isl": 8, "osl": 8, "request_rate": 1, "num_request_ratio": 2},
        }
    )
    digest = hashlib.sha256((trace.parent / "model" / "config.json").read_bytes()).hexdigest()
    assert changed_inputs(asked, {"model_sha256": digest}) == changed_inputs(asked, {}) == []
    (trace.parent / "model" / "config.json").write_text('{"a": 1}')
    changed = changed_inputs(asked, {"model_sha256": digest})
    assert changed == ["model/config.json: the search was made with another model"]
