"""What the command does when stdout or stderr is full, closed, or no longer read."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from search_fakes import make_config

HERE = Path(__file__).parent
LINES = "0: score=1024.0 used_gpus=8\n1: score=512.0 used_gpus=8\n2: score=256.0 used_gpus=8\n"
PRINTING = [[], ["--format", "table"], ["--format", "json"], ["--dry-run"], ["--help"]]


def no_room():
    """Let every write to a file fail, as on a full disk; pipes still work."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.fixture
def spica(tmp_path):
    """Run the command in a process; return (exit code, stdout or None, stderr or None)."""
    config = tmp_path / "search.yaml"
    config.write_text(yaml.safe_dump(make_config(candidates_per_round=3).model_dump(mode="json")))

    def run(*options, stdout=subprocess.PIPE, stderr=subprocess.PIPE, before=None, unbuffered=False):
        command = [sys.executable, "-B", str(HERE / "faked_search.py"), "--config", str(config), *options]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        if unbuffered:
            environment["PYTHONUNBUFFERED"] = "1"
        done = subprocess.run(
            command, stdout=stdout, stderr=stderr, text=True, preexec_fn=before, env=environment
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def unread_pipe():
    """The writing end of a pipe whose reader is gone."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("options", PRINTING)
def test_a_reader_that_left_is_no_failure(spica, unread_pipe, options):
    code, _, err = spica("--quiet", *options, stdout=unread_pipe)
    assert (code, err) == (0, "")


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("options", PRINTING)
def test_a_full_stdout_is_one_line_that_names_it(spica, tmp_path, options, unbuffered):
    with (tmp_path / "full").open("w") as full:
        code, _, err = spica("--quiet", *options, stdout=full, before=no_room, unbuffered=unbuffered)
    assert (code, err) == (1, "aisimulate spica: error: could not write to stdout: File too large\n")


def test_a_closed_stdout_is_one_line(spica):
    code, _, err = spica("--quiet", stdout=None, before=lambda: os.close(1))
    assert (code, err) == (1, "aisimulate spica: error: could not write to stdout: it is closed\n")


def test_a_full_stderr_costs_nothing_but_its_text(spica, tmp_path):
    with (tmp_path / "full").open("w") as full:
        code, out, _ = spica(stderr=full, before=no_room)
    assert (code, out) == (0, LINES)


def test_a_broken_stderr_costs_nothing_but_its_text(spica, unread_pipe):
    code, out, _ = spica(stderr=unread_pipe)
    assert (code, out) == (0, LINES)


def test_a_closed_stderr_costs_nothing_but_its_text(spica):
    code, out, _ = spica(stderr=None, before=lambda: os.close(2))
    assert (code, out) == (0, LINES)


@pytest.mark.parametrize("closed", [False, True])
def test_complaints_keep_their_exit_code_without_a_stderr(spica, unread_pipe, closed):
    stderr, before = (None, lambda: os.close(2)) if closed else (unread_pipe, None)
    assert spica("--config", "none.yaml", stderr=stderr, before=before)[:2] == (2, "")
    assert spica("--colour", stderr=stderr, before=before)[:2] == (2, "")


def test_a_result_is_printed_although_its_file_could_not_be_written(spica, tmp_path):
    output = tmp_path / "out.json"
    code, out, err = spica("--quiet", "--output", str(output), before=no_room)
    assert (code, out) == (1, LINES)
    assert err == f"aisimulate spica: error: --output {output}: File too large\n"
    assert [path.name for path in tmp_path.iterdir()] == ["search.yaml"]


def test_a_file_is_written_although_nobody_reads_stdout(spica, tmp_path, unread_pipe):
    output = tmp_path / "out.json"
    assert spica("--output", str(output), stdout=unread_pipe)[0] == 0
    assert '"status": "done"' in output.read_text()
