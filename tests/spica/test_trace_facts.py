"""Traffic that no replay could serve is refused before the search, with its place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from spica_walk import PINNED, changed

from aisimulate.cli.spica import main
from aisimulate.core.errors import InputError
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.plan import plan_search

ROW = {"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [1, 2]}
TRACES = Path(__file__).parents[1] / "data" / "traces"
LLAMA = "meta-llama/Meta-Llama-3.1-8B"


@pytest.fixture
def trace(tmp_path):
    """Write rows as a trace; returns its path."""

    def write(*rows):
        path = tmp_path / "t.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def planned(workload, **space):
    changes = {f"search_space.{name}": value for name, value in space.items()}
    return plan_search(SmartSearchConfig.model_validate(changed(PINNED, {"workload": workload, **changes})))


def refused(workload, **space):
    with pytest.raises(InputError) as caught:
        planned(workload, **space)
    return str(caught.value)


def synthetic(isl):
    return {"isl": isl, "osl": 8, "concurrency": 2, "num_request_ratio": 1}


def test_an_open_loop_needs_first_timestamps(trace):
    path = trace(ROW, {name: value for name, value in ROW.items() if name != "timestamp"})
    assert refused({"trace_path": str(path)}) == (
        f"{path}:2: session 'request_2' has no first timestamp: an open-loop replay needs one for every "
        "session (or set replay_concurrency)"
    )
    assert planned({"trace_path": str(path), "replay_concurrency": 2}).branches


def test_a_speed_up_that_leaves_the_clock(trace):
    path = trace(ROW, {**ROW, "timestamp": 9e12})
    text = refused({"trace_path": str(path), "arrival_speedup_ratio": 0.5})
    assert text.startswith("arrival_speedup_ratio 0.5: session 'request_2' would go beyond")


def test_an_agentic_trace_has_no_cap_on_concurrency():
    plays = {"trace_path": str(TRACES / "plays.jsonl"), "trace_format": "agentic_mooncake"}
    assert planned(plays).branches
    assert refused(plays | {"replay_concurrency": 2}) == (
        "workload.replay_concurrency: 2: an agentic trace does not support it"
    )
    text = refused(plays | {"arrival_speedup_ratio": 1e-13})
    assert text.startswith("arrival_speedup_ratio 1e-13: request 'A1' would go beyond")


def test_a_trace_may_be_a_folder(tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    shutil.copy(TRACES / "subagent.json", corpus)
    workload = {"trace_path": str(corpus), "trace_format": "weka"}
    assert planned(workload).branches


def test_rows_that_are_all_too_long(trace):
    workload = {"trace_path": str(trace(ROW, ROW))}
    assert refused(workload, context_length=600) == (
        f"{workload['trace_path']}: all 2 rows have prompts of 600 tokens (search_space.context_length) or "
        "more; every replay rejects them"
    )
    assert planned(workload, context_length=601).notes == []


def test_some_rows_that_are_too_long_are_noted(trace):
    workload = {"trace_path": str(trace(ROW, {**ROW, "input_length": 700}))}
    assert planned(workload, context_length=700).notes == [
        "1 of 2 trace rows have prompts of 700 tokens (search_space.context_length) or more; every replay "
        "rejects them"
    ]


def test_a_synthetic_prompt_as_long_as_the_context():
    assert refused(synthetic(600), context_length=600) == (
        "workload.isl: 600 is not below 600 tokens (search_space.context_length); every replay would reject "
        "such requests"
    )
    assert f"workload.isl: 131072 is not below 131072 tokens (the maximum of {LLAMA})" in refused(
        synthetic(131_072)
    )
    assert planned(synthetic(599), context_length=600).notes == []


def test_unknown_trace_fields_are_noted_before_the_search(trace):
    path = trace(ROW, {**ROW, "outputlength": 3})
    assert planned({"trace_path": str(path)}).notes == [
        f"{path}:2: unknown field 'outputlength', ignored; did you mean 'output_length'?"
    ]


def test_a_relative_path_is_taken_from_the_current_directory(trace, tmp_path, monkeypatch):
    trace(ROW)
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    file = tmp_path / "search.yaml"
    file.write_text(yaml.safe_dump(changed(PINNED, {"workload": {"trace_path": "t.jsonl"}})))
    with pytest.raises(InputError) as caught:
        plan_search(SmartSearchConfig.from_yaml(file))
    assert str(caught.value) == (
        "workload.trace_path: could not read 't.jsonl': no such file (relative paths are taken from the "
        f"current directory, {tmp_path / 'cwd'}); the config's own folder has it: write "
        f"'{tmp_path / 't.jsonl'}'"
    )
    assert "config's own folder" not in refused({"trace_path": "t.jsonl"})
    assert refused({"trace_path": "/no/such"}).endswith("'/no/such': no such file")


@pytest.mark.parametrize(
    "workload", [synthetic(131_072), {"trace_path": "absent.jsonl"}], ids=["too long", "no file"]
)
def test_the_exit_code_is_that_of_bad_input(workload, tmp_path, capsys):
    file = tmp_path / "search.yaml"
    file.write_text(yaml.safe_dump(changed(PINNED, {"workload": workload})))
    assert main(["--config", str(file), "--quiet"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
