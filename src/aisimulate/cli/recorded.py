"""How commands name and read a recorded search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.cli.run_files import find_run
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.recorded_run import read_run

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from aisimulate.spica.recorded_run import RecordedRun


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    """Let a command take a RUN, as `arguments.run_name`."""
    parser.add_argument("run_name", metavar="RUN", help="a name of `runs list`, a file, or `last`")


def named_run(name: str) -> RecordedRun:
    """Read a run by its name, its file, or `last`. Raises InputError when there is none."""
    return run_of(find_run(name))


def run_of(path: Path) -> RecordedRun:
    """Read the run in a file. Raises InputError when it is none."""
    with Ledger.open_ledger(path) as ledger:
        return read_run(ledger)
