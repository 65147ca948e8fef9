"""An argument parser whose errors are one line, as all our errors are."""

from __future__ import annotations

import argparse
from typing import NoReturn

from aisimulate.cli.exit_codes import BAD_INPUT, DONE
from aisimulate.cli.output import fail, settle_stderr, show
from aisimulate.core.console import say
from aisimulate.core.errors import nearest

# How argparse begins to complain of options that it does not know.
_UNKNOWN = "unrecognized arguments: "


class OneLineParser(argparse.ArgumentParser):
    """Reports a bad command line without repeating the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Say `prog: error: message` on stderr, with the nearest option for an unknown one; exit with 2."""
        unknown = message.partition(_UNKNOWN)[2].split(" ")[0].partition("=")[0]
        message += nearest(unknown, self._option_string_actions) if unknown else ""
        self.exit(fail(self.prog, f"{message} (--help lists the options)", BAD_INPUT))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Say `message`, if there is one, and exit with `status`."""
        if message:
            say(message.rstrip())
        settle_stderr()
        raise SystemExit(status)

    def _print_message(self, message: str, file: object = None) -> None:
        """Print the help or the version; exit with 1 if stdout cannot take it (argparse would hide that)."""
        status = show(self.prog, message, DONE)
        if status != DONE:
            self.exit(status)
