"""The `recommend` command: another name of `spica`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.cli import spica

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.cli.parser import OneLineParser

_PROG = "aisimulate recommend"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command as `spica` does."""
    return spica.main(argv, prog=_PROG)


def _parser() -> OneLineParser:
    return spica._parser(_PROG)
