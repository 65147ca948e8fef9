"""`aisimulate export`: which candidate, where to, and what it refuses."""

from __future__ import annotations

import os
import shlex

import pytest

from aisimulate.cli.export import main
from tests.page.made_run import made_run


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path))
    return made_run(tmp_path / "made.sqlite", 12, target="goodput_per_gpu")


def test_the_best_goes_to_stdout(run, capsys):
    assert main(["made", "best", "--to", "vllm"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("#!/bin/sh\n# acme/dense: agg x ")
    tp = run.candidates[0].config["tp"]
    assert f"--tensor-parallel-size {tp} " in out


def test_a_number_names_the_attempt(run, capsys):
    assert main(["made", "4", "--to", "vllm"]) == 0
    config = run.attempts[3].outcome.candidate.config
    command = capsys.readouterr().out.splitlines()[-1]
    words = shlex.split(command)
    assert words[words.index("--tensor-parallel-size") + 1] == str(config["tp"])


def test_files_go_into_a_folder(run, tmp_path, capsys):
    folder = tmp_path / "deep" / "folder"
    assert main(["made", "best", "--to", "compose", "-o", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["compose.yaml", "nginx.conf"]
    assert capsys.readouterr().out == f"wrote {folder / 'compose.yaml'}\nwrote {folder / 'nginx.conf'}\n"
    assert main(["made", "best", "--to", "vllm", "-o", str(folder)]) == 0
    assert os.access(folder / "agg.sh", os.X_OK)


def test_files_that_were_edited_are_kept(run, tmp_path, capsys):
    folder = tmp_path / "folder"
    write = ["made", "best", "--to", "compose", "-o", str(folder)]
    assert main(write) == 0
    assert main(write) == 0, "the same once more loses nothing"
    (folder / "nginx.conf").write_text("mine\n")
    (folder / "compose.yaml").unlink()
    assert main(write) == 2
    assert "nginx.conf: exists already (--overwrite replaces it)" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["nginx.conf"], "nothing is half written"
    assert main([*write, "--overwrite"]) == 0
    assert (folder / "nginx.conf").read_text().startswith("# Round robin")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["made", "1", "--to", "vllm", "--overwrite"], "--overwrite: has no effect without --output"),
        (["made", "13", "--to", "vllm"], "there is no candidate '13'; give `best` or 1 to 12"),
        (["made", "x", "--to", "vllm"], "there is no candidate 'x'"),
        (["made", "10", "--to", "vllm"], "candidate 10 has no result: no room in"),
        (["made", "1", "--to", "sglang"], "was simulated with vllm; use --to vllm"),
        (["none", "1", "--to", "vllm"], "there is no run 'none'"),
        (["made", "1", "--to", "vllm", "-o", "made.sqlite"], "is a file, expected a directory"),
        (["made", "1", "--to", "vllm", "-o", "made.sqlite/x"], "x: cannot be made: Not a directory"),
        (["made", "1", "--to", "vllm", "-o", "nowhere"], "--output nowhere: cannot be made: File exists"),
    ],
)
def test_what_it_refuses(run, tmp_path, monkeypatch, capsys, arguments, problem):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert problem in error.splitlines()[-1]


def test_an_unknown_target_is_told_the_nearest(run, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["made", "1", "--to", "dynamos"])
    assert ended.value.code == 2
    assert "dynamo" in capsys.readouterr().err


def test_a_run_without_a_result(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path))
    made_run(tmp_path / "empty.sqlite", 0)
    assert main(["empty", "best", "--to", "vllm"]) == 2
    assert "has no feasible candidate" in capsys.readouterr().err
