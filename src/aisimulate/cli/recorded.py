"""How commands read a recorded search that the user names, and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.cli.exit_codes import BAD_INPUT, FAILED, INTERRUPTED
from aisimulate.cli.output import fail, settle_stderr
from aisimulate.cli.run_files import find_run
from aisimulate.core.console import say
from aisimulate.core.errors import AISimulateError
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.recorded_run import read_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aisimulate.spica.recorded_run import RecordedRun


def named_run(name: str) -> RecordedRun:
    """Read a run by its name, its file, or `last`. Raises InputError when there is none."""
    return run_of(find_run(name))


def run_of(path: Path) -> RecordedRun:
    """Read the run in a file. Raises InputError when it is none."""
    with Ledger.open_ledger(path) as ledger:
        return read_run(ledger)


def guarded(prog: str, command: Callable[[], int]) -> int:
    """Run a command; every error is one line: 1 failed, 2 bad input, 130 interrupted."""
    try:
        return command()
    except KeyboardInterrupt:
        say(f"{prog}: interrupted")
        return INTERRUPTED
    except ValueError as error:
        return fail(prog, error, BAD_INPUT)
    except (AISimulateError, OSError) as error:
        return fail(prog, error, FAILED)
    finally:
        settle_stderr()
