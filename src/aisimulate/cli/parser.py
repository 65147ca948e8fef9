"""An argument parser whose errors are one line, as all our errors are."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from aisimulate.cli.exit_codes import BAD_INPUT


class OneLineParser(argparse.ArgumentParser):
    """Reports a bad command line without repeating the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Print `prog: error: message` to stderr and exit with 2."""
        text = " ".join(message.split())
        self.exit(BAD_INPUT, f"{self.prog}: error: {text} (--help lists the options)\n")


def fail(prog: str, message: object, code: int = BAD_INPUT) -> int:
    """Print `prog: error: message` on one line of stderr; return `code`."""
    print(f"{prog}: error: {' '.join(str(message).split())}", file=sys.stderr)
    return code
