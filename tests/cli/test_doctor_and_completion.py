"""What an installation tells of itself, and what a shell is told of the command line."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess

import pytest

from aisimulate import __version__
from aisimulate.cli.completion import main as completion
from aisimulate.cli.doctor import main as doctor
from aisimulate.cli.main import COMMANDS


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def findings(capsys):
    assert doctor(["--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "aisimulate.doctor"
    return {item["subject"]: item for item in document["findings"]}


def test_the_doctor_tells_versions_data_extras_and_plug_ins(runs, capsys):
    found = findings(capsys)
    assert found["aisimulate"]["text"] == __version__
    for name in ("aiconfigurator-core", "numpy", "plotly"):
        assert found[name] == {"state": "ok", "subject": name, "text": importlib.metadata.version(name)}
    assert "vllm 0.24.0 (current)" in found["data h200_sxm"]["text"]
    assert "extra forecast" in found
    assert "plug-ins aisimulate.placements" in found
    assert found["runs"]["text"] == f"0 in {runs}"
    assert not any(item["state"] == "problem" for item in found.values())


def test_the_doctor_is_plain_for_people(runs, capsys):
    assert doctor([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.split()[0] in ("ok", "note") for line in lines)
    assert any(line.split()[1:3] == ["aisimulate", __version__] for line in lines)


def test_a_problem_is_told_and_fails(runs, capsys):
    runs.write_text("a file")
    assert doctor([]) == 1
    assert f"problem  runs  {runs}: is not a directory" in " ".join(
        "  ".join(line.split(maxsplit=2)) for line in capsys.readouterr().out.splitlines()
    )


def script(capsys, shell):
    assert completion([shell]) == 0
    return capsys.readouterr().out


def completed(text, *words):
    """What bash offers for the last of `words`."""
    line = " ".join(f'"{word}"' for word in words)
    asked = f'{text}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _aisimulate; echo "${{COMPREPLY[@]}}"'
    bash = shutil.which("bash")
    return subprocess.run([bash, "-c", asked], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_commands_options_and_values(capsys):
    text = script(capsys, "bash")
    assert completed(text, "aisimulate", "") == [*COMMANDS, "--help", "--version"]
    assert completed(text, "aisimulate", "sp") == ["spica"]
    assert completed(text, "aisimulate", "spica", "--gpu") == ["--gpu-hour-price"]
    assert completed(text, "aisimulate", "spica", "--format", "") == ["lines", "table", "json"]
    assert "dynamo" in completed(text, "aisimulate", "export", "--to", "")
    assert completed(text, "aisimulate", "runs", "ex") == ["export"]


def test_every_option_of_every_command_is_in_the_scripts(capsys):
    texts = [script(capsys, shell) for shell in ("bash", "zsh", "fish")]
    for text in texts:
        for word in ("--max-num-batched-tokens", "trace-block-size", "gpu-hour-price", "overwrite"):
            assert word.removeprefix("--") in text
    assert texts[1].startswith("autoload -U +X bashcompinit")
    assert "complete -c aisimulate -n '__fish_seen_subcommand_from spica' -l seed" in texts[2]
