"""A record edited by hand: whatever was changed, a command works or ends in one line that names the file."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from contextlib import closing

import pytest

import aisimulate
from aisimulate.cli.main import main
from tests.api.test_api import SEARCH

VALUES = [None, True, 0, -1, 2.5, 10**30, "", "x", "../x", [], [1], {}, {"a": 1}, "unknown", 1e300, "\u0000"]
RAW = ["NaN", "null", "[", "", "{}", "3", '"x"', "1e999", "-Infinity", "[" * 100_000]
COMMANDS = [
    ["runs", "show", "RUN"],
    ["runs", "list"],
    ["runs", "export", "RUN"],
    ["runs", "export", "RUN", "--format", "csv"],
    ["runs", "compare", "RUN", "RUN"],
    ["report", "RUN", "-o", "page.html"],
    ["export", "RUN", "best", "--to", "vllm"],
    ["export", "RUN", "best", "--to", "replay"],
]
REPLAYING = [
    ["runs", "replay", "RUN", "best"],
    ["report", "RUN", "--inside", "1", "-o", "page.html"],
    ["whatif", "RUN", "--only", "less-kv", "--jobs", "1", "--top", "1", "--quiet"],
]


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("record") / "real.sqlite"
    aisimulate.recommend(SEARCH, run=path)
    return path


@pytest.fixture
def edited(record, tmp_path, monkeypatch):
    """Give a function that edits a copy of the record, and returns its path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path))

    def edit(statement, values=()):
        path = tmp_path / "edited.sqlite"
        shutil.copy(record, path)
        with closing(sqlite3.connect(path)) as database, database:
            assert database.execute(statement, values).rowcount
        return path

    return edit


def rows(path):
    with closing(sqlite3.connect(path)) as database:
        facts = [("run", "name", "value", *row) for row in database.execute("SELECT name, value FROM run")]
        tried = database.execute("SELECT number, outcome FROM attempt").fetchall()
    return facts + [("attempt", "number", "outcome", *row) for row in tried]


def random_edit(draw, path):
    """Replace or delete one value somewhere in one row, or its whole text."""
    table, key, column, name, text = draw.choice(rows(path))
    if draw.random() < 0.15:
        changed = draw.choice(RAW)
    else:
        document = json.loads(text)
        changed = json.dumps(changed_somewhere(draw, document))
    return f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (changed, name)


def changed_somewhere(draw, document):
    if not isinstance(document, dict | list) or not document or draw.random() < 0.1:
        return draw.choice(VALUES)
    place = draw.choice(list(document) if isinstance(document, dict) else range(len(document)))
    if draw.random() < 0.1:
        del document[place]
    else:
        document[place] = changed_somewhere(draw, document[place])
    return document


def check(command, path, capsys):
    """Run a command: it works, or says what is wrong in one line."""
    try:
        code = main([str(path) if word == "RUN" else word for word in command])
    except SystemExit as ending:
        code = ending.code
    said = capsys.readouterr()
    assert code in (0, 1, 2), (command, said.err)
    if code == 2 and path.name not in said.err:
        raise AssertionError(f"{command}: names no file: {said.err}")
    assert "Traceback" not in said.err
    return code, said


@pytest.mark.parametrize("seed", range(20))
def test_no_edit_ends_in_a_traceback(seed, record, edited, capsys):
    draw = random.Random(seed)
    for _ in range(5):
        statement, values = random_edit(draw, record)
        path = edited(statement, values)
        for command in (*COMMANDS, *(REPLAYING if seed % 10 == 0 else ())):
            try:
                check(command, path, capsys)
            except BaseException as error:
                raise AssertionError(f"{command} after {statement} {values!r}"[:3000]) from error


EDITS = {
    "asked": ("UPDATE run SET value = 'NaN' WHERE name = 'asked'", "run 'asked': NaN is no finite number"),
    "null": ("UPDATE attempt SET outcome = 'null'", "attempt 1: outcome: expected a mapping, got None"),
    "backend": (
        """UPDATE attempt SET outcome = replace(outcome, '"backend":"vllm"', '"backend":"vlm"')""",
        "backend: 'vlm' is not one of vllm, sglang, trtllm; did you mean 'vllm'?",
    ),
    "replicas": (
        """UPDATE attempt SET outcome = replace(outcome, '"replicas":', '"replicas":"x","was":')""",
        "replicas: expected a whole number >= 1, got 'x'",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_told_by_every_command(edit, edited, capsys):
    statement, problem = EDITS[edit]
    path = edited(statement)
    for command in (*COMMANDS, *REPLAYING):
        code, said = check(command, path, capsys)
        assert (code, said.out) == (2, "") or command == ["runs", "list"]
        assert str(path) in said.err
        assert problem in said.err
