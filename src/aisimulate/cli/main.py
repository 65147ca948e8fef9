"""`aisimulate COMMAND ...`. Only the chosen command is imported, so that --help and errors are instant."""

from __future__ import annotations

import importlib
import sys
from argparse import RawDescriptionHelpFormatter
from typing import TYPE_CHECKING

from aisimulate import __version__
from aisimulate.cli.exit_codes import INTERRUPTED
from aisimulate.cli.parser import OneLineParser
from aisimulate.core.console import say
from aisimulate.core.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

# name -> (module with a `main(argv) -> exit code`, what it answers)
COMMANDS = {
    "spica": ("aisimulate.cli.spica", "find the deployments that serve a workload best"),
    "simulate": ("aisimulate.cli.simulate", "replay a workload on one deployment"),
