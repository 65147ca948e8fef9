from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from aisimulate import __version__
from aisimulate.cli.main import _run, main


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
    [([], "a command is needed: init"), (["spcia"], "did you mean 'spica'?"), (["--colour"], "--colour")],
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


def test_an_interrupt_while_a_command_is_loaded_is_one_line(capsys, monkeypatch):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", interrupted)
    assert main(["spica", "--help"]) == 130
    assert capsys.readouterr().err == "aisimulate: interrupted\n"


def test_sigterm_ends_a_command_in_order_and_is_left_as_it_was(monkeypatch):
    class Ended:
        @staticmethod
        def main(argv):
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                argv.append("cleaned up")

    arguments = ["simulate"]
    monkeypatch.setattr("importlib.import_module", lambda name: Ended)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as info:
        _run("any", arguments)
    assert (info.value.code, arguments) == (143, ["simulate", "cleaned up"])
    assert signal.getsignal(signal.SIGTERM) is before
