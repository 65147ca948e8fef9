"""Every command in the documents is one that works: it is run, or, where that takes too long, checked.

A block names its language. `sh` is run line by line, `text` is output or a synopsis, whose options exist.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from aisimulate.cli.main import COMMANDS, main

from .blocks import ROOT, blocks, inline_commands, words_of
from .workspace import furnish

LANGUAGES = {"sh", "text", "yaml", "json", "python", "toml"}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# Blocks that a test of their own runs as they stand, by the heading above them.
RUN_ELSEWHERE = {
    "## Your own model and traffic": "tests/test_new_user.py",
    "## From nothing to a deployment": "tests/cli/test_whole_way.py",
}
LONG = "examples/aisimulate/spica/configs/"  # searches of minutes or hours: what they would do is looked at
NOT_PLANNED = ("--top", "--run")  # options that a look at a plan does not take
SHELLS = [block for block in blocks("sh") if block.heading not in RUN_ELSEWHERE]


def options_of(command: list[str], capsys) -> set[str]:
    """The long options that a command of ours has."""
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0, command
    return set(OPTION.findall(capsys.readouterr().out))


def test_every_block_names_its_language():
    assert [str(block) for block in blocks() if block.language not in LANGUAGES] == []


def test_what_is_run_elsewhere_is_there():
    headings = {block.heading for block in blocks("sh")}
    for heading, test in RUN_ELSEWHERE.items():
        assert heading in headings
        assert heading.strip("# ") in (ROOT / test).read_text()


@pytest.fixture(scope="module")
def furnished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    furnish(folder)
    return folder


@pytest.fixture
def workspace(furnished, tmp_path, monkeypatch):
    folder = tmp_path / "here"
    shutil.copytree(furnished, folder, symlinks=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("AISIMULATE_RUNS", str(folder / "runs"))
    return folder


def as_run(line: str) -> list[str]:
    """The words of a command after its name, with the choices that it leaves to its reader made."""
    words = words_of(line)[1:]
    form = words[words.index("--trace-format") + 1] if "--trace-format" in words else "mooncake"
    words = [{"RUN": "last", "TRACE": f"TRACE.{form}"}.get(word, word) for word in words]
    if any(word.startswith(LONG) for word in words):
        for option in NOT_PLANNED:
            if option in words:
                at = words.index(option)
                del words[at : at + 2]
        words.append("--dry-run")
    elif words[0] == "spica":
        words += ["--set", "sweep.max_rounds=1", "--set", "sweep.candidates_per_round=2"]
    return words


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("block", SHELLS, ids=str)
def test_a_block_works_line_by_line(block, capsys):
    for name in re.findall(r" (?:-o|--output) (\S+)", block.text):
        if Path(name).is_file():
            Path(name).unlink()
    for line in block.commands:
        if words_of(line)[0].endswith("aisimulate") and "|" not in line:
            check_ours(line, capsys)
        elif line.startswith("make "):
            check_make(line)
        else:
            check_other(line)


def check_ours(line: str, capsys) -> None:
    assert main(as_run(line)) == 0, f"{line}: {capsys.readouterr().err}"
    words = words_of(line)[1:]
    options = {word for word in words if word.startswith("--")}
    assert options <= options_of(commands_in(words), capsys), line


def check_make(line: str) -> None:
    """Its targets and variables exist."""
    makefile = (ROOT / "Makefile").read_text()
    assert f"\n{line.split()[1]}:" in makefile, line
    assert [name for name in re.findall(r"\b([A-Z_]+)=", line) if name not in makefile] == [], line


def check_other(line: str) -> None:
    """A script or a module exists and knows the options; so does the shell whose completion is printed."""
    if "aisimulate completion " in line:
        assert re.search(r"aisimulate completion (bash|zsh|fish)\b", line), line
        return
    words = [word for word in words_of(line) if not re.fullmatch(r"[A-Z_]+=\S*", word)]
    sources = [source for word in words for source in python_source(word)]
    assert sources or "pip" in line, line
    known = "".join(path.read_text() for path in sources)
    assert [word for word in words if word.startswith("--") and sources and word not in known] == [], line


def commands_in(words: list[str]) -> list[str]:
    """The command, and its part where it has some."""
    return words[: 2 if words[0] in ("runs", "trace") else 1]


def python_source(word: str) -> list[Path]:
    """The files of the script or the package that a word names."""
    if word.endswith(".py"):
        return [ROOT / word]
    if word.startswith("tools."):
        path = ROOT / word.replace(".", "/")
        return sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return []


SYNOPSES = [block for block in blocks("text") if block.text.startswith("aisimulate ")]


@pytest.mark.parametrize("block", SYNOPSES, ids=str)
def test_a_synopsis_has_options_that_exist(block, capsys):
    command: list[str] = []
    for line in block.commands:
        words = line.partition("#")[0].split()
        if words[0] == "aisimulate":
            command = commands_in(words[1:])
        elif words[:2] == ["python", "-m"]:
            command = [words[2].rpartition(".")[2]]
        if command:
            assert set(OPTION.findall(line)) <= options_of(command, capsys), line


def test_commands_within_sentences_exist(capsys):
    for page, text in inline_commands():
        if text.startswith("-"):
            continue
        first, *rest = text.replace("\\|", "|").split()
        assert first in COMMANDS, f"{page}: {text}"
        parts = rest[0].split("|") if rest and first in ("runs", "trace", "completion") else [""]
        for part in parts:
            command = [first, part] if part and first != "completion" else [first]
            known = options_of(command, capsys)
            assert set(OPTION.findall(text)) <= known, f"{page}: {text}"
