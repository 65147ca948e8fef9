"""The page of the documentation: what the command prints, with what a reader needs to know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tools.validate.text import markdown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.validate.text import Table

_INTRODUCTION = Path(__file__).with_name("introduction.md")


def page_text(tables: Iterable[Table]) -> str:
    """Write the page."""
    return _INTRODUCTION.read_text("utf-8") + "\n" + "\n".join(markdown(tables)).rstrip() + "\n"
