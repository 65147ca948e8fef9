"""Traffic that no replay could serve is refused before the search, with its place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from spica_walk import PAIR, PINNED, changed, look

from aisimulate.cli.spica import main
from aisimulate.core.errors import InputError
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.plan import plan_search

ROW = {"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [1, 2]}
TRACES = Path(__file__).parents[1] / "data" / "traces"
PLAYS = {"trace_path": str(TRACES / "plays.jsonl"), "trace_format": "agentic_mooncake"}
SUBAGENT = {"trace_path": str(TRACES / "subagent.json"), "trace_format": "weka"}
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
    path = trace(ROW, {**ROW, "timestamp": 4e12})
    text = refused({"trace_path": str(path), "arrival_speedup_ratio": 0.5})
    assert text.startswith("arrival_speedup_ratio 0.5: session 'request_2' would go beyond")


def test_an_agentic_trace_has_no_cap_on_concurrency():
    assert planned(PLAYS).branches
    assert refused(PLAYS | {"replay_concurrency": 2}) == (
        "workload.replay_concurrency: 2: an agentic trace does not support it"
    )
    text = refused(PLAYS | {"arrival_speedup_ratio": 1e-13})
    assert text.startswith("arrival_speedup_ratio 1e-13: request 'A1' would go beyond")


def searched_modes(plan):
    return [branch.deployment_mode for branch in plan.branches]


@pytest.mark.parametrize("workload", [PLAYS, SUBAGENT], ids=lambda workload: workload["trace_format"])
def test_an_agentic_trace_is_not_searched_on_separate_pools(workload, monkeypatch):
    """Every candidate that is left can be replayed, and settings of the other pools are said to be inert."""
    changes = {"deployment_mode": ["disagg", "agg"], "parallel_configs": None, "prefill_max_num_seqs": [8]}
    config = changed(
        PINNED, {"workload": workload} | {f"search_space.{name}": value for name, value in changes.items()}
    )
    found = look(config, monkeypatch)
    assert searched_modes(found.result.plan) == ["agg"]
    assert {payload["spec"]["topology"]["kind"] for payload in found.payloads} == {"aggregated"}
    assert {status for status, _ in found.statuses} == {"feasible"}
    assert found.notes[:2] == [
        "deployment_mode: dropped disagg (an agentic trace requires an aggregated topology), searching agg",
        "prefill_max_num_seqs: no effect without disagg",
    ]


@pytest.mark.parametrize(
    ("context", "modes"), [({}, ["disagg", "agg"]), ({"agent_context": {"session_id": "s"}}, ["agg"])]
)
def test_the_trace_decides_and_not_its_format(context, modes, trace):
    prompt = {"trace_block_size": 4, "input_length": 8, "input_sequence_hashes": [11, 12]}
    request = {"request_id": "a", "output_tokens": 2, "request_received_ms": 100, "total_time_ms": 10}
    outer = {"schema": "dynamo.request.trace.v1", "event_type": "request_end", "event_time_unix_ms": 110}
    path = trace(outer | {"request": request | {"replay": prompt}} | context)
    workload = {"trace_path": str(path), "trace_format": "dynamo"}
    plan = planned(workload, deployment_mode=["disagg", "agg"], parallel_configs=None)
    assert searched_modes(plan) == modes
    assert any("deployment_mode" in note for note in plan.notes) == ("disagg" not in modes)


@pytest.mark.parametrize("options", [["--dry-run"], ["--quiet"]], ids=["dry run", "search"])
def test_an_agentic_trace_on_separate_pools_alone_is_refused(options, tmp_path, capsys):
    file = tmp_path / "search.yaml"
    file.write_text(yaml.safe_dump(changed(PAIR, {"workload": PLAYS})))
    assert main(["--config", str(file), *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert (
        "search_space.deployment_mode: disagg: an agentic trace requires an aggregated topology; use agg"
    ) in err


def test_an_evaluator_of_the_users_own_may_take_agents_on_separate_pools():
    config = SmartSearchConfig.model_validate(changed(PAIR, {"workload": PLAYS}))
    assert searched_modes(plan_search(config, capabilities=None)) == ["disagg"]


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
