"""The command: formats, files, exit codes, and that every complaint is one line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from search_fakes import BrokenEvaluator, SeqsEvaluator, forget_the_model, make_branch, make_config

from aisimulate.cli.spica import main
from aisimulate.core.errors import InputError
from aisimulate.spica.ledger import Ledger

HERE = Path(__file__).parent


@pytest.fixture
def command(monkeypatch, tmp_path, capsys):
    """Run `spica` on a config with fakes; return (exit code, stdout, stderr)."""

    def run(*options, evaluator=None, branch=None, prog="spica", text=None, **config):
        forget_the_model(monkeypatch, [branch or make_branch()])
        monkeypatch.setattr(
            "aisimulate.spica.search.ReplayEvaluator",
            lambda workload, goal, **more: evaluator or SeqsEvaluator(),
        )
        path = tmp_path / "search.yaml"
        made = make_config(**({"candidates_per_round": 3} | config)).model_dump(mode="json")
        path.write_text(yaml.safe_dump(made) if text is None else text)
        code = main(["--config", str(path), *options], prog=prog, default_format="lines")
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_scalar_lines(command):
    code, out, err = command()
    assert code == 0
    assert out == "0: score=1024.0 used_gpus=8\n1: score=512.0 used_gpus=8\n2: score=256.0 used_gpus=8\n"
    assert "smart-sweep done: 3/3 attempts feasible" in err
    assert "best throughput=1024" in err


def test_pareto_lines(command):
    goal = {"target": "pareto", "pareto_objectives": ["throughput", "e2e_latency"]}
    code, out, _ = command(goal=goal, evaluator=SeqsEvaluator(mean_e2e_latency_ms=70.125))
    assert code == 0
    assert out == (
        "pareto front (1 non-dominated):\n0: throughput=1024, e2e_latency=70.12 concurrency=4 used_gpus=8\n"
    )


def test_a_front_is_thinned_out(command):
    goal = {"target": "pareto", "pareto_objectives": ["throughput", "e2e_latency"]}
    evaluator = SeqsEvaluator(mean_e2e_latency_ms=70.125)
    code, out, _ = command("--epsilon", "0.01", "--format", "json", goal=goal, evaluator=evaluator)
    assert (code, json.loads(out)["epsilon_front"]) == (0, json.loads(out)["pareto_front"])
    code, _, err = command("--epsilon", "0.01")
    assert (code, err.splitlines()[-1]) == (
        2,
        "spica: error: --epsilon: thins out a Pareto front, but the goal is throughput",
    )


def test_latency_is_summed_up_in_natural_units(command):
    _, out, err = command(goal={"target": "e2e_latency"}, evaluator=SeqsEvaluator(mean_e2e_latency_ms=70.0))
    assert out.startswith("0: score=-70.0 ")
    assert "best e2e_latency=70" in err


def test_top_and_quiet(command):
    code, out, err = command("--top", "1", "--quiet")
    assert (code, out, err) == (0, "0: score=1024.0 used_gpus=8\n", "")


def test_the_table_shows_the_winning_configuration(command):
    code, out, _ = command("--format", "table", "--top", "2")
    assert code == 0
    assert "TP4" in out
    assert "8192/1024 vllm" in out
    assert "... and 1 more" in out
    assert "winning configuration:\n  deployment_mode: agg\n" in out
    assert (
        "vllm serve acme/dense --tensor-parallel-size 4 --max-num-batched-tokens 8192 --max-num-seqs 1024"
        in out
    )


def test_the_table_needs_no_second_look_at_its_first_candidate(command, monkeypatch, tmp_path):
    def interrupted(result):
        raise KeyboardInterrupt

    run = tmp_path / "run.sqlite"

    def deleted(result):
        run.unlink(missing_ok=True)
        return "100.0% measured"

    monkeypatch.setattr("aisimulate.cli.spica.first_origins", interrupted)
    code, out, _ = command("--format", "table")
    assert (code, "winning configuration:" in out, "forwards of" in out) == (0, True, False)
    monkeypatch.setattr("aisimulate.cli.spica.first_origins", deleted)
    code, out, _ = command("--format", "table", "--run", str(run))
    assert (code, "forwards of the first: 100.0% measured\n" in out) == (0, True)


def test_a_lost_record_does_not_cost_the_table(command, monkeypatch, tmp_path):
    run = tmp_path / "run.sqlite"

    class Deleting(SeqsEvaluator):
        def evaluate(self, plan, *, concurrency_override=None):
            if plan.agg_engine_args["max_num_seqs"] == 512:
                run.unlink()
            return super().evaluate(plan, concurrency_override=concurrency_override)

    monkeypatch.setattr("aisimulate.cli.spica.first_origins", lambda result: "100.0% measured")
    code, out, err = command("--format", "table", "--run", str(run), evaluator=Deleting())
    assert (code, "winning configuration:" in out) == (1, True)
    assert err.splitlines()[-1].endswith("was deleted or replaced while it was being written")


def test_the_table_folds_what_measured_the_same(command):
    class Indifferent(SeqsEvaluator):
        def evaluate(self, plan, *, concurrency_override=None):
            seqs = plan.agg_engine_args["max_num_seqs"]
            return {"output_throughput_tok_s": 9.0 if seqs > 256 else 5.0, "completed_requests": 8}

    _, out, _ = command("--format", "table", evaluator=Indifferent())
    assert "8192/512 vllm (+1 equal)" in out
    assert "8192/256 vllm " in out
    assert "8192/1024" not in out


def test_output_holds_every_attempt_and_is_the_same_every_time(command, tmp_path):
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file in files:
        assert command("--output", str(file))[0] == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    envelope = json.loads(files[0].read_text())
    assert [attempt["status"] for attempt in envelope["attempts"]] == ["feasible"] * 3
    assert envelope["ranking"] == ["candidate-000003", "candidate-000002", "candidate-000001"]
    counts = envelope["counts"]
    parts = ("feasible", "infeasible", "timed_out", "failed")
    assert counts["evaluated"] == sum(counts[part] for part in parts) == 3
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []
    assert envelope["branches"][0] == {
        "deployment_mode": "agg",
        "sampler": "random",
        "finite_size": 3,
        "rounds": 1,
        "suggestions": 3,
        "tried_points": 3,
        "feasible": 3,
        "complete": True,
        "stop_reason": "budget spent",
    } | {"sampler": "grid"}


def test_json_goes_to_stdout(command):
    code, out, _ = command("--format", "json", "--top", "1", "--seed", "9")
    envelope = json.loads(out)
    assert (code, envelope["seed"], len(envelope["ranking"]), len(envelope["attempts"])) == (0, 9, 1, 3)
    assert envelope["config"]["sweep"]["random_seed"] == 9


def test_nothing_feasible(command):
    code, out, err = command(evaluator=BrokenEvaluator())
    assert (code, out) == (1, "")
    assert "no feasible candidate found (most frequent failure: replay failed: OSError: no such\\nplan" in err
    assert "smart-sweep failure reason(s): replay failed: OSError: no such\\nplan 256 (x1); " in err


def test_dry_run_measures_nothing(command):
    evaluator = SeqsEvaluator()
    code, out, _ = command("--dry-run", evaluator=evaluator)
    assert (code, evaluator.plans) == (0, [])
    assert "branch agg: 1 parallel configs, 3 points, sampler grid" in out
    assert "agg_max_num_seqs: one of 256, 512, 1024" in out
    assert "budget: 1 rounds x 3 per branch, at most 3 measurements" in out
    described = json.loads(command("--dry-run", "--format", "json")[1])
    assert described["branches"][0]["finite_size"] == described["max_measurements"] == 3


@pytest.mark.parametrize(
    "option", [["--top", "3"], ["--epsilon", "0.01"], ["--check"], ["--run", "a.sqlite"]]
)
def test_dry_run_refuses_what_it_would_ignore(command, option):
    problem = f"{option[0]}: has no effect with --dry-run, which measures nothing"
    assert command("--dry-run", *option) == (2, "", f"spica: error: {problem}\n")


@pytest.mark.parametrize("options", [[], ["--format", "json"]])
def test_dry_run_writes_the_plan_where_it_is_asked_to(command, tmp_path, options):
    output = tmp_path / "plan.json"
    code, out, _ = command("--dry-run", "--output", str(output), *options)
    described = json.loads(output.read_text())
    assert (code, described["format"]) == (0, "aisimulate.spica.plan")
    assert described["branches"][0]["finite_size"] == 3
    assert (out == output.read_text()) is bool(options)


def test_the_summary_says_how_much_of_the_space_was_tried(command):
    assert "smart-sweep tried: agg 3 of 3 points\n" in command()[2]
    assert "smart-sweep tried: agg 2 of 3 points\n" in command(candidates_per_round=2)[2]
    endless = make_branch(float_ranges={"kv_load_ratio": (0.0, 1.0)})
    assert re.search(r"smart-sweep tried: agg \d points of a continuous space\n", command(branch=endless)[2])


def test_what_was_infeasible_is_told_by_category(command):
    code, out, err = command(branch=make_branch(), space={"gpu_budget": 4})
    assert (code, out) == (1, "")
    assert "smart-sweep infeasible (gated): gpu_budget (x3)\n" in err
    assert err.endswith("no feasible candidate found (infeasible: gpu_budget (x3))\n")


class _Interrupted(SeqsEvaluator):
    """Ctrl-C comes at a plan of `at` sequences; those of less fail."""

    def __init__(self, at):
        super().__init__()
        self._at = at

    def evaluate(self, plan, *, concurrency_override=None):
        if plan.agg_engine_args["max_num_seqs"] == self._at:
            raise KeyboardInterrupt
        raise OSError("no such plan")


@pytest.mark.parametrize(
    ("at", "remark"),
    [
        (256, "interrupted before any candidate was measured"),
        (1024, "interrupted: none of the 2 candidates evaluated until then was feasible"),
    ],
)
def test_ctrl_c_without_a_result_is_no_verdict_on_the_space(command, at, remark):
    code, out, err = command(evaluator=_Interrupted(at))
    assert (code, out) == (130, "")
    assert err.splitlines()[-2] == remark
    assert err.splitlines()[-1].startswith("to go on: aisimulate spica --resume ")
    assert "no feasible candidate" not in err
    assert "check" not in err
    assert command("--quiet", evaluator=_Interrupted(at))[2].splitlines()[0] == remark


def test_a_goal_that_nothing_meets_has_no_winner(command):
    report = {
        "goodput_output_throughput_tok_s": 0.0,
        "goodput_completed_requests": 0,
        "num_requests": 8,
        "mean_ttft_ms": 10.0,
        "mean_itl_ms": 7.5,
    }
    goal = {"target": "goodput", "sla": {"ttft_ms": 1, "itl_ms": 1}}
    code, out, err = command("--format", "table", goal=goal, evaluator=SeqsEvaluator(**report))
    assert code == 0
    assert "no candidate meets the SLA (ttft_ms: 1, itl_ms: 1)" in out
    assert "winning" not in out
    assert "best goodput=0 (no request met the SLA)" in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1", "malformed YAML in"),
        ("", "invalid config"),
        ("search_space: {model_name: m, hardware_sku: h, gpu_budgte: 4}\nworkload: {}", "gpu_budget"),
    ],
)
def test_bad_files_are_one_line(command, text, words):
    code, out, err = command(text=text)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("spica: error: ")
    assert words in err


def test_an_unreadable_file_is_one_line(capsys, tmp_path):
    assert main(["--config", str(tmp_path / "none.yaml")]) == 2
    assert "could not read config" in capsys.readouterr().err


def test_set_up_errors_are_one_line(command, monkeypatch):
    trace = {"trace_path": "/no/such/trace.jsonl"}
    code, out, err = command("--quiet", workload=trace)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "workload.trace_path: could not read '/no/such/trace.jsonl'" in err

    def refuse(config, *, max_seq_len):
        raise InputError("hardware_sku: unknown")

    monkeypatch.setattr("test_spica_cli.make_branch", lambda: None)
    monkeypatch.setattr("aisimulate.cli.spica.plan_search", lambda config: refuse(config, max_seq_len=None))
    assert command("--dry-run") == (2, "", "spica: error: hardware_sku: unknown\n")


@pytest.mark.parametrize("options", [["--top", "0"], ["--seed", "-1"], ["--format", "xml"], ["--colour"]])
def test_bad_options_are_one_line(command, capsys, options):
    with pytest.raises(SystemExit) as info:
        command(*options)
    err = capsys.readouterr().err
    assert (info.value.code, err.count("\n")) == (2, 1)


def test_an_unwritable_output_is_refused_before_the_search(command, tmp_path):
    evaluator = SeqsEvaluator()
    for target in (tmp_path / "none" / "out.json", tmp_path):
        code, _, err = command("--output", str(target), evaluator=evaluator)
        assert (code, evaluator.plans) == (2, [])
        assert "--output" in err


def test_a_grid_over_a_range_is_refused(command):
    branch = make_branch(float_ranges={"kv_load_ratio": (0.0, 1.0)})
    code, _, err = command(branch=branch, sampler="grid")
    assert code == 2
    assert "sweep.sampler: grid needs a finite space" in err


def test_a_worker_pool_gives_the_same_bytes(command, tmp_path):
    serial, parallel = tmp_path / "serial.json", tmp_path / "parallel.json"
    seqs = tuple(range(1, 9))
    for file, workers in ((serial, 1), (parallel, 2)):
        options = {"parallel_evals": workers, "candidates_per_round": 4, "max_rounds": 2, "sampler": "random"}
        assert command("--output", str(file), branch=make_branch(seqs=seqs), **options)[0] == 0
    one, two = (json.loads(file.read_text()) for file in (serial, parallel))
    assert (one["attempts"], one["ranking"]) == (two["attempts"], two["ranking"])
    assert len(one["ranking"]) == 8


def test_rows_beyond_the_context_are_noted_before_the_search(command, tmp_path):
    rows = [
        {"timestamp": 0, "input_length": tokens, "output_length": 5, "hash_ids": list(range(9))}
        for tokens in (100, 4095, 4096, 4600)
    ]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, out, _ = command("--dry-run", workload={"trace_path": str(trace)})
    assert "note: 2 of 4 trace rows have prompts of 4096 tokens" in out


@pytest.fixture
def hanging(tmp_path):
    """Start a search whose first round ends and whose second one hangs; wait for that, and return it."""
    config = tmp_path / "search.yaml"

    def start(output, run, **sweep):
        made = make_config(max_rounds=2, candidates_per_round=1, **sweep)
        config.write_text(yaml.safe_dump(made.model_dump(mode="json")))
        options = ["--config", str(config), "--output", str(output), "--run", str(run)]
        process = subprocess.Popen(
            [sys.executable, str(HERE / "interrupted_search.py"), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert any("round 1" in line for line in process.stderr)
        return process

    return start


@pytest.mark.parametrize(
    ("send", "number", "code"),
    [
        # As a terminal does: to the whole process group, workers included.
        (os.killpg, signal.SIGINT, 130),
        (os.kill, signal.SIGTERM, 143),
        (os.killpg, signal.SIGTERM, 143),
    ],
)
@pytest.mark.parametrize("max_eval_seconds", [100.0, None], ids=["worker", "in process"])
def test_a_search_that_is_told_to_end_prints_and_records_what_was_found(
    hanging, tmp_path, send, number, code, max_eval_seconds
):
    output, run = tmp_path / "out.json", tmp_path / "run.sqlite"
    process = hanging(output, run, max_eval_seconds=max_eval_seconds)
    send(process.pid, number)
    out, err = process.communicate(timeout=60)  # returns when no worker holds the pipes any more
    assert process.returncode == code, err
    assert out == "0: score=256.0 used_gpus=8\n"
    assert "Traceback" not in err
    assert err.splitlines()[-1] == f"to go on: aisimulate spica --resume {run}"
    assert json.loads(output.read_text())["status"] == "interrupted"
    with Ledger.open_ledger(run) as ledger:
        assert ledger.progress() == {"attempts": 1, "status": "interrupted"}


@pytest.mark.parametrize("options", [[], ["--check"]])
def test_check_asks_for_the_invariants_of_every_replay(command, monkeypatch, options):
    asked = []
    code, _, _ = command(*options)
    monkeypatch.setattr("aisimulate.cli.spica.run_search", lambda config, **more: asked.append(more) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        command(*options)
    assert code == 0
    assert asked[0]["check"] is bool(options)
