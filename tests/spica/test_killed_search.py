"""Searches that are killed at random moments, again and again, and resumed each time.

`AISIMULATE_KILLS` sets how often (`make kill-test`: 20).
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from search_fakes import make_config

HERE = Path(__file__).parent
KILLS = int(os.environ.get("AISIMULATE_KILLS", "2"))
ROUNDS, PER_ROUND = 3 + KILLS, 8


@pytest.fixture(params=["rounds", "pipelined"])
def asks(request):
    return request.param


@pytest.fixture
def search(tmp_path, asks):
    """Start a search of about a second: `search(log, *arguments)` returns its process."""
    config = tmp_path / "search.yaml"
    made = make_config(
        sampler="random",
        asks=asks,
        max_rounds=ROUNDS,
        candidates_per_round=PER_ROUND,
        parallel_evals=2,
        max_eval_seconds=60,
        random_seed=11,
    )
    config.write_text(yaml.safe_dump(made.model_dump(mode="json")))

    def start(log, *arguments, **options):
        source = () if "--resume" in arguments else ("--config", str(config))
        return subprocess.Popen(
            [sys.executable, str(HERE / "killed_search.py"), "--quiet", *source, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"KILLED_LOG": str(log)},
            **options,
        )

    return start


def rows(path, query):
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        try:
            return database.execute(query).fetchall()
        except sqlite3.OperationalError:  # killed before there were any tables
            return []


def contents(path):
    """All of a ledger but wall times; replays by key, for they end in any order."""
    return (
        rows(path, "SELECT name, value FROM run ORDER BY name"),
        rows(path, "SELECT key, outcome FROM replay ORDER BY key"),
        rows(path, "SELECT * FROM attempt ORDER BY number"),
    )


def kill_at_random(process, run, dice):
    """Kill a search some time after its start; fail if it leaves a process behind."""
    wanted = len(rows(run, "SELECT key FROM replay")) + dice.randrange(1, ROUNDS * PER_ROUND // KILLS)
    end_s = time.monotonic() + 300
    while len(rows(run, "SELECT key FROM replay")) < wanted and process.poll() is None:
        assert time.monotonic() < end_s
        time.sleep(0.005)
    time.sleep(dice.random() * 0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)  # returns when every process that holds the pipes is gone


def test_killed_searches_end_as_an_unbroken_one(search, tmp_path):
    whole, broken = tmp_path / "whole.sqlite", tmp_path / "broken.sqlite"
    whole_log, broken_log = tmp_path / "whole.log", tmp_path / "broken.log"
    dice = random.Random(int(os.environ.get("AISIMULATE_KILL_SEED", "1")))
    out, err = search(whole_log, "--run", str(whole)).communicate(timeout=300)
    assert err == ""
    recorded: dict[str, float] = {}
    killed = 0
    for _ in range(KILLS):
        begun = bool(rows(broken, "SELECT 1 FROM run"))
        process = search(broken_log, "--resume" if begun else "--run", str(broken))
        kill_at_random(process, broken, dice)
        killed += process.returncode == -signal.SIGKILL
        found = dict(rows(broken, "SELECT key, wall_s FROM replay"))
        assert recorded.items() <= found.items()  # nothing recorded was replayed again
        recorded = found
    final = search(broken_log, "--resume", str(broken))
    assert final.communicate(timeout=300) == (out, err)
    assert contents(broken) == contents(whole)
    assert killed == KILLS
    # What was under way when the kill came was not finished, or not yet written down: one per worker.
    assert len(broken_log.read_text().split()) - len(whole_log.read_text().split()) <= 2 * KILLS


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, 90_000))


@pytest.mark.parametrize("asks", ["rounds"])
def test_a_full_disk_ends_the_search_with_one_line_and_what_was_found(search, tmp_path):
    """A limit of file size stands for a disk that fills up."""
    run = tmp_path / "run.sqlite"
    process = search(tmp_path / "log", "--run", str(run), preexec_fn=limit_files)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1
    lines = err.splitlines()
    assert lines[0].startswith("ended early: the ranking covers what was measured until then")
    assert (len(lines), lines[1].startswith(f"aisimulate spica: error: {run}: ")) == (2, True)
    assert out.startswith("0: score=")
    kept = len(rows(run, "SELECT key FROM replay"))
    assert 0 < kept < ROUNDS * PER_ROUND
    resumed = search(tmp_path / "log", "--resume", str(run))
    resumed.communicate(timeout=300)
    assert resumed.returncode == 0
    assert len(rows(run, "SELECT key FROM replay WHERE outcome LIKE '%feasible%'")) == ROUNDS * PER_ROUND


@pytest.mark.parametrize("asks", ["rounds"])
def test_a_ledger_deleted_meanwhile_is_noticed(search, tmp_path):
    run = tmp_path / "run.sqlite"
    process = search(tmp_path / "log", "--run", str(run))
    while len(rows(run, "SELECT key FROM replay")) < 3:
        time.sleep(0.01)
    run.unlink()
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert err.splitlines()[-1].endswith("run.sqlite: was deleted or replaced while it was being written")
    assert out.startswith("0: score=")
