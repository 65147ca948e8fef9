"""How a command ends that fails: one line on stderr and an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.cli.exit_codes import BAD_INPUT, FAILED, INTERRUPTED
from aisimulate.cli.output import fail, settle_stderr
from aisimulate.core.console import say
from aisimulate.core.errors import AISimulateError, TimingError

if TYPE_CHECKING:
    from collections.abc import Callable


def guarded(prog: str, command: Callable[[], int], interrupted: str = "interrupted") -> int:
    """Run a command; every error is one line: 1 failed, 2 bad input, 130 interrupted.

    A `TimingError` is bad input: before a search, it says that there is no data for what was asked.
    """
    try:
        return command()
    except KeyboardInterrupt:
        say(f"{prog}: {interrupted}")
        return INTERRUPTED
    except (ValueError, TimingError) as error:
        return fail(prog, error, BAD_INPUT)
    except (AISimulateError, OSError) as error:
        return fail(prog, error, FAILED)
    finally:
        settle_stderr()
