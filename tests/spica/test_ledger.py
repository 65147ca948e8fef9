"""A search that is recorded, killed, and continued."""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
import yaml

from aisimulate.cli import export as export_command
from aisimulate.cli import runs as runs_command
from aisimulate.cli.run_files import find_run, new_run_path
from aisimulate.cli.spica import main
from aisimulate.core.errors import InputError
from aisimulate.replay.execute import execute
from aisimulate.spica.config import Candidate
from aisimulate.spica.ledger import Ledger, LedgerError
from aisimulate.spica.outcome import Outcome, Reason, Status
from aisimulate.spica.outcome_json import outcome_text, read_outcome
from aisimulate.spica.recorded_run import read_run

FEASIBLE = Outcome(
    Status.FEASIBLE,
    {"replicas": 2, "policy": {"id": "x"}},
    candidate=Candidate(
        config={"replicas": 2}, used_gpus=2, score=-0.1, metrics={"a": 0.1 + 0.2}, objectives={"b": 3.0}
    ),
)
FAILED = Outcome(Status.FAILED, {"tp": 1}, category=Reason.DATA_GAP, reason="no data")

CONFIG = """
search_space:
  model_name: meta-llama/Meta-Llama-3.1-8B
  hardware_sku: h200_sxm
  gpu_budget: 4
  context_length: 4096
  deployment_mode: [agg]
  router_mode: [round_robin]
  planner_scaling_policy: [disabled]
workload: {isl: 256, osl: 32, kv_load_ratio: [0.0, 0.05], num_request_ratio: 2}
goal: {target: pareto}
sweep: {max_rounds: 3, candidates_per_round: 4, parallel_evals: 2, random_seed: 7}
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "search.yaml"
    path.write_text(CONFIG)
    return path


@pytest.mark.parametrize("outcome", [FEASIBLE, FAILED])
def test_outcomes_are_read_as_they_were_written(outcome):
    assert read_outcome(outcome_text(outcome)) == outcome


def test_a_ledger_keeps_what_was_committed(tmp_path):
    with Ledger.create(tmp_path / "a.sqlite") as ledger:
        ledger.describe(seed=3)
        ledger.add_replay("k1", FEASIBLE, 0.5)
        ledger.add_attempt("agg", 1, "k1", FEASIBLE, cached=False)
        ledger.commit()
        ledger.add_attempt("agg", 1, "k2", FAILED, cached=False)
    with Ledger.open_ledger(tmp_path / "a.sqlite") as ledger:
        assert ledger.facts == {"seed": 3}
        assert ledger.replayed() == {"k1": FEASIBLE}
        assert [attempt.key for attempt in ledger.attempts()] == ["k1"]


def test_a_run_has_one_writer(tmp_path):
    path = tmp_path / "a.sqlite"
    with Ledger.create(path) as ledger:
        ledger.describe(asked={})
        with pytest.raises(InputError, match="another process is writing"):
            Ledger.open_ledger(path, writable=True)
        Ledger.open_ledger(path).__exit__()  # a reader is welcome
    Ledger.open_ledger(path, writable=True).__exit__()


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InputError, match="text: is damaged, or not the ledger of a search: file is"):
        Ledger.open_ledger(tmp_path / "text")
    sqlite3.connect(tmp_path / "other.sqlite").execute("CREATE TABLE t (x)")
    with pytest.raises(InputError, match="is not the ledger of a search"):
        Ledger.open_ledger(tmp_path / "other.sqlite")
    with pytest.raises(InputError, match="there is no such run"):
        Ledger.open_ledger(tmp_path / "none")
    with Ledger.create(tmp_path / "a.sqlite"), pytest.raises(InputError, match="another process is writing"):
        Ledger.create(tmp_path / "a.sqlite")


def test_a_full_disk_is_one_clear_error(tmp_path):
    with Ledger.create(tmp_path / "a.sqlite") as ledger:
        ledger.add_replay("kept", FAILED, 0.0)
        ledger._connection.execute("PRAGMA max_page_count=1")
        large = Outcome(Status.FAILED, {"x": "y" * 100_000}, category=Reason.UNKNOWN, reason="r")
        with pytest.raises(LedgerError, match=r"a\.sqlite: database or disk is full"):
            ledger.add_replay("large", large, 0.0)
    with Ledger.open_ledger(tmp_path / "a.sqlite") as ledger:
        assert list(ledger.replayed()) == ["kept"]


LONG = "r" * 300


@pytest.mark.parametrize("name", [LONG, LONG[:255], f"{LONG}/a"])
def test_a_name_that_no_file_can_have_is_one_line(config, tmp_path, capsys, name):
    path = str(tmp_path / name)
    assert main(["--config", str(config), "--run", path]) == 2
    assert main(["--resume", path]) == 2
    said = capsys.readouterr()
    first, second = said.err.splitlines()
    assert first.startswith("aisimulate spica: error: ")
    assert first.endswith(("File name too long", "is not a directory"))
    assert "there is no run" in second
    assert said.out == ""


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_folder_that_cannot_be_written_is_one_line(config, tmp_path, capsys, monkeypatch, number):
    def refuse(self, *args, **kwargs):
        raise OSError(number, os.strerror(number))

    run = tmp_path / "a.sqlite"
    Ledger.create(tmp_path / "old.sqlite").__exit__()
    with monkeypatch.context() as patched:
        patched.setattr("aisimulate.spica.ledger.Path.open", refuse)
        with pytest.raises(InputError, match=f"a.sqlite: cannot be written: {os.strerror(number)}"):
            Ledger.create(run)
    assert not run.exists()


def begun_run():
    with Ledger.create(new_run_path()) as ledger:
        ledger.describe(asked={})
    return ledger.path


def test_run_names(tmp_path, monkeypatch):
    monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path / "runs"))
    with pytest.raises(InputError, match="there is no run 'last'"):
        find_run("last")
    first, second = (begun_run() for _ in range(2))
    assert first != second
    assert find_run(first.stem) == first
    assert find_run("last") in (first, second)
    with pytest.raises(InputError, match="did you mean"):
        find_run(first.stem[:-1])


def spica(*arguments):
    code = "from aisimulate.cli.spica import main; raise SystemExit(main())"
    return [
        sys.executable,
        "-c",
        f"if __name__ == '__main__':\n    {code.replace('; ', chr(10) + '    ')}",
        *arguments,
    ]


def table(path, query):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    except sqlite3.Error:
        return []
    finally:
        connection.close()


def everything(path):
    """All of a ledger but wall times."""
    facts = table(path, "SELECT name, value FROM run ORDER BY name")
    return facts, table(path, "SELECT key, outcome FROM replay"), table(path, "SELECT * FROM attempt")


def wait_for(path, replays, process):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and len(table(path, "SELECT key FROM replay")) >= replays:
            return
        time.sleep(0.02)


def killed_after(replays, path, ask):
    """Kill a search once that many replays are recorded; once more if it ended before the signal came."""
    done = {}
    for _ in range(10):
        for leftover in path.parent.glob(path.name + "*"):
            leftover.unlink()
        with subprocess.Popen(spica(*ask, "--run", str(path)), stdout=subprocess.DEVNULL) as process:
            wait_for(path, replays, process)
            process.send_signal(signal.SIGKILL)
        done = dict(table(path, "SELECT key, wall_s FROM replay"))
        if len(done) < 12:
            break
    return done


@pytest.mark.parametrize("replays", [1, 6])
def test_a_killed_search_is_continued_to_the_same_end(config, tmp_path, replays):
    whole, broken = tmp_path / "whole.sqlite", tmp_path / "broken.sqlite"
    ask = ["--config", str(config), "--quiet"]
    assert main([*ask, "--run", str(whole), "--output", str(tmp_path / "whole.json")]) == 0
    done = killed_after(replays, broken, ask)
    assert replays <= len(done) < 12
    resumed = ["--resume", str(broken), "--quiet", "--output", str(tmp_path / "resumed.json")]
    assert main(resumed) == 0
    assert everything(broken) == everything(whole)
    assert (tmp_path / "resumed.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    again = dict(table(broken, "SELECT key, wall_s FROM replay"))
    assert {key: again[key] for key in done} == done  # nothing was replayed twice


def test_another_search_is_refused(config, tmp_path, capsys):
    run = tmp_path / "a.sqlite"
    assert main(["--config", str(config), "--quiet", "--run", str(run)]) == 0
    with sqlite3.connect(run) as connection:
        connection.execute("UPDATE run SET value = '{\"aisimulate\": \"0.0\"}' WHERE name = 'versions'")
    assert main(["--resume", str(run), "--quiet"]) == 2
    assert "was made with other versions of the programs; start a new run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--resume", "last", "--seed", "3"], "--seed: has no effect with --resume"),
        (["--resume", "nowhere"], "there is no run 'nowhere'"),
        (["--config", "x", "--resume", "y"], "not allowed with argument"),
    ],
)
def test_bad_requests(arguments, problem, capsys):
    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert problem in capsys.readouterr().err


class TestRunsCommand:
    @pytest.fixture(autouse=True)
    def one_run(self, tmp_path, monkeypatch, config):
        monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path / "runs"))
        assert main(["--config", str(config), "--quiet"]) == 0

    def test_list_and_show(self, capsys):
        capsys.readouterr()
        assert runs_command.main(["list"]) == 0
        assert "done" in capsys.readouterr().out
        assert runs_command.main(["show", "last", "--top", "1"]) == 0
        assert "12 attempts" in capsys.readouterr().out

    def test_exports_hold_every_attempt(self, capsys, tmp_path):
        capsys.readouterr()
        assert runs_command.main(["export", "last"]) == 0
        document = json.loads(capsys.readouterr().out)
        with Ledger.open_ledger(find_run("last")) as ledger:
            run = read_run(ledger)
        assert [a["metrics"] for a in document["attempts"]] == [
            a.outcome.candidate and a.outcome.candidate.metrics for a in run.attempts
        ]
        assert (
            runs_command.main(["export", "last", "--format", "csv", "--output", str(tmp_path / "a.csv")]) == 0
        )
        assert len((tmp_path / "a.csv").read_text().splitlines()) == 13

    def test_compare_says_what_differs(self, capsys, config, tmp_path):
        other = tmp_path / "other.sqlite"
        assert main(["--config", str(config), "--quiet", "--seed", "9", "--run", str(other)]) == 0
        capsys.readouterr()
        assert runs_command.main(["compare", "last", str(other)]) == 0
        text = capsys.readouterr().out
        assert "sweep.random_seed" in text
        assert "search_space" not in text

    def test_compare_sets_fronts_side_by_side(self, capsys, config, tmp_path):
        other = tmp_path / "other.sqlite"
        assert main(["--config", str(config), "--quiet", "--seed", "9", "--run", str(other)]) == 0
        capsys.readouterr()
        assert runs_command.main(["compare", "last", str(other)]) == 0
        text = capsys.readouterr().out
        for row in ("points of the front", "best throughput_per_user", "area under the front"):
            assert row in text
        assert text.count("throughput_per_gpu at throughput_per_user >= ") == 6

    def test_every_point_of_the_front_is_reproduced_alone(self, capsys):
        capsys.readouterr()
        assert runs_command.main(["replay", "last"]) == 0
        rows = capsys.readouterr().out.splitlines()[1:]
        with Ledger.open_ledger(find_run("last")) as ledger:
            assert len(rows) == len(read_run(ledger).candidates) > 1
        assert all("the same, all " in row for row in rows)

    def test_a_figure_that_is_not_that_of_the_record_is_named(self, capsys):
        with closing(sqlite3.connect(find_run("last"))) as database, database:
            database.execute(
                """UPDATE attempt SET outcome = replace(outcome, '"num_requests":', '"num_requests":1')"""
            )
        capsys.readouterr()
        assert runs_command.main(["replay", "last", "best"]) == 1
        assert "1 figures differ: num_requests was 1" in capsys.readouterr().out

    def test_programs_get_the_same_as_json(self, capsys):
        def told(*words):
            capsys.readouterr()
            assert runs_command.main([*words, "--format", "json"]) == 0
            return json.loads(capsys.readouterr().out)

        (listed,) = told("list")["runs"]
        shown = told("show", "last", "--top", "1")
        assert shown["format"] == "aisimulate.runs.ranking"
        assert {name: shown[name] for name in listed} == listed
        (first,) = shown["ranked"]
        assert first["objectives"] == listed["best"]
        (replayed,) = told("replay", "last", str(first["candidate"]))["replays"]
        assert (replayed["objectives"], replayed["differences"]) == (listed["best"], [])
        compared = told("compare", "last", "last")
        assert compared["rows"]["attempts"] == [str(listed["attempts"])] * 2
        assert runs_command.main(["show", "last", "--format", "json", "--gpu-hour-price", "1"]) == 2

    def test_the_payload_of_a_candidate_can_be_simulated(self, capsys, tmp_path):
        capsys.readouterr()
        assert export_command.main(["last", "best", "--to", "replay"]) == 0
        (tmp_path / "payload.json").write_text(capsys.readouterr().out)
        report = execute(json.loads((tmp_path / "payload.json").read_text()))
        with Ledger.open_ledger(find_run("last")) as ledger:
            metrics = read_run(ledger).candidates[0].metrics
        assert report["output_throughput_tok_s"] == metrics["output_throughput_tok_s"]

    def test_no_run_leaves_none(self, config, tmp_path):
        before = sorted((tmp_path / "runs").iterdir())
        assert main(["--config", str(config), "--quiet", "--no-run"]) == 0
        assert sorted((tmp_path / "runs").iterdir()) == before


def test_a_refused_search_leaves_no_run(config, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path / "fresh"))
    config.write_text(CONFIG.replace("meta-llama/Meta-Llama-3.1-8B", "acme/unknown"))
    assert main(["--config", str(config), "--quiet"]) == 2
    assert list((tmp_path / "fresh").iterdir()) == []
    assert runs_command.main(["list"]) == 0
    assert "never began" not in capsys.readouterr().err


def test_a_search_goes_on_without_a_record_where_none_can_be_written(config, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path / "file" / "runs"))
    assert main(["--config", str(config)]) == 0
    assert "this search is not recorded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("UPDATE attempt SET outcome = 'x' WHERE number = 1", "is damaged: attempt 1: Expecting value"),
        ("UPDATE attempt SET outcome = '{}'", "is damaged: attempt 1: 'status' is missing"),
        ("UPDATE attempt SET outcome = '[1]'", "attempt 1: outcome: expected a mapping, got [1]"),
        ("UPDATE attempt SET outcome = 'null'", "attempt 1: outcome: expected a mapping, got None"),
        ("UPDATE attempt SET round = 'x'", "attempt 1: round is 'x'"),
        ("UPDATE run SET value = 'NaN' WHERE name = 'seed'", "run 'seed': NaN is no finite number"),
        ("UPDATE run SET value = '[3]' WHERE name = 'seed'", "run 'seed': expected a whole number, got [3]"),
        ("UPDATE attempt SET outcome = replace(outcome, 'candidate', 'kandidat')", "without a candidate"),
        ("UPDATE attempt SET outcome = replace(outcome, 'used_gpus', 'gpus')", "is damaged: "),
        (
            'UPDATE attempt SET outcome = replace(outcome, \'"score":\', \'"score":Infinity,"a":\')',
            "is damaged: attempt 1: Infinity is no finite number",
        ),
        (
            'UPDATE attempt SET outcome = replace(outcome, \'"metrics":{\', \'"metrics":{"big":1e999,\')',
            "is damaged: attempt 1: 1e999 is inf",
        ),
        ("UPDATE run SET value = '[' WHERE name = 'seed'", "is damaged: run 'seed': Expecting value"),
        ("UPDATE run SET value = '{}' WHERE name = 'config'", "cannot be read: search_space: missing"),
        ("DROP TABLE attempt", "not the ledger of a search: no such table: attempt"),
    ],
)
def test_a_damaged_ledger_is_one_line(damage, problem, tmp_path, capsys):
    path = tmp_path / "a.sqlite"
    with Ledger.create(path) as ledger:
        ledger.describe(seed=3, config=yaml.safe_load(CONFIG))
        ledger.add_attempt("agg", 1, "k1", FEASIBLE, cached=False)
        ledger.commit()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(damage)
    assert runs_command.main(["show", str(path)]) == 2
    said = capsys.readouterr()
    assert (said.out, len(said.err.splitlines())) == ("", 1)
    assert str(path) in said.err
    assert problem in said.err


def test_a_runs_folder_that_is_a_file(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "runs"
    folder.touch()
    monkeypatch.setenv("AISIMULATE_RUNS", str(folder))
    assert runs_command.main(["list"]) == 2
    assert capsys.readouterr().err == f"aisimulate runs: error: {folder}: is not a directory\n"
    with pytest.raises(InputError, match="runs: is not a directory"):
        new_run_path()


@pytest.mark.parametrize("begun", ["no file yet", "an empty file", "tables"])
def test_a_search_killed_at_its_start_can_be_started_anew(begun, tmp_path):
    """`--resume` says so, hence `--run` with the same file has to do it."""
    path = tmp_path / "a.sqlite"
    if begun == "an empty file":
        path.touch()
    elif begun == "tables":
        Ledger.create(path).__exit__()
    with Ledger.create(path) as ledger:
        ledger.describe(seed=3)
    with pytest.raises(InputError, match="exists already"):
        Ledger.create(path)
