"""The documentation's page of costs, which holds what the benchmark printed."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
_BLOCK = re.compile(r"(<!-- make bench:[^\n]*\n```text\n).*?(```\n<!-- end of make bench -->)", re.DOTALL)


def written(page: str, lines: list[str]) -> str:
    """Put the lines into the marked block. Raises ValueError when there is none."""
    text, count = _BLOCK.subn(lambda match: match[1] + "\n".join(lines) + "\n" + match[2], page)
    if count != 1:
        raise ValueError(f"{PAGE.name} has {count} blocks of the benchmark, expected 1")
    return text
