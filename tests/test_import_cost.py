"""Start-up stays cheap: heavy libraries are imported by the command that needs them, not before."""

import subprocess
import sys

import pytest

HEAVY = ("numpy", "pandas", "pydantic", "aiconfigurator_core", "rich", "orjson", "yaml")

LIST_MODULES = """
import contextlib, io, sys
{statement}
print("\\n".join(sys.modules))
"""


def modules_after(statement):
    """Top-level packages that a fresh interpreter holds after `statement`."""
    code = LIST_MODULES.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def command_line(*arguments):
    return (
        "from aisimulate.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):\n"
        f"    with contextlib.suppress(SystemExit): main({list(arguments)!r})"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "import aisimulate",
        "import aisimulate.spica",
        "import aisimulate.perf",
        "import aisimulate.engine.scheduler, aisimulate.engine.group",
        command_line("--help"),
        command_line("--version"),
        command_line("no-such-command"),
        command_line("perf", "--help"),
    ],
    ids=["package", "spica", "perf", "engine", "help", "version", "error", "perf help"],
)
def test_nothing_heavy_is_imported(statement):
    loaded = modules_after(statement)
    assert "aisimulate" in loaded
    assert loaded.intersection(HEAVY) == set()


def test_the_lazy_export_is_the_facade():
    loaded = modules_after("from aisimulate import run_replay_json; assert callable(run_replay_json)")
    assert "orjson" in loaded, "this check would not see an import"


def test_a_worker_of_a_search_starts_without_the_simulator():
    loaded = modules_after("import aisimulate.spica.worker, aisimulate.spica.config")
    assert "pydantic" in loaded
    assert loaded.isdisjoint({"numpy", "pandas", "aiconfigurator_core", "rich"})
