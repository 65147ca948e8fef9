from __future__ import annotations

import subprocess
import sys

import pytest

from aisimulate import __version__
from aisimulate.cli.main import main


def test_version(capsys):
    with pytest.raises(SystemExit) as info:
        main(["--version"])
    assert (info.value.code, capsys.readouterr().out) == (0, f"aisimulate {__version__}\n")


def test_help_names_the_commands(capsys):
    with pytest.raises(SystemExit) as info:
        main(["--help"])
    assert info.value.code == 0
    assert "spica" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "words"),
    [([], "a command is needed: spica"), (["spcia"], "did you mean 'spica'?"), (["--colour"], "--colour")],
)
def test_a_bad_command_line_is_one_line(capsys, argv, words):
    with pytest.raises(SystemExit) as info:
        main(argv)
    err = capsys.readouterr().err
    assert (info.value.code, err.count("\n")) == (2, 1)
    assert words in err


def test_a_command_gets_the_rest_of_the_line(capsys):
    with pytest.raises(SystemExit) as info:
        main(["spica", "--help"])
    assert info.value.code == 0
    assert "usage: aisimulate spica" in capsys.readouterr().out


def test_help_imports_nothing_heavy():
    code = (
        "import sys, contextlib, io\n"
        "from aisimulate.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main(['--help'])\n"
        "heavy = {'numpy', 'pandas', 'pydantic', 'rich', 'yaml', 'orjson', 'aiconfigurator_core'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_package_runs_as_the_command_does():
    done = subprocess.run(
        [sys.executable, "-m", "aisimulate", "spcia"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("aisimulate: error: unknown command 'spcia'")
