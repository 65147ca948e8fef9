"""The blocks of code in every document, and the words of the commands in them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "examples/**/*.md", "tools/**/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, the heading above it, the line it begins in, its language and its text."""

    page: str
    heading: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """Its lines without comments, those that end in a backslash joined with the next."""
        joined = re.sub(r"\\\n\s*", "", self.text)
        return [line.strip() for line in joined.splitlines() if line.strip() and line[0] != "#"]


def blocks(*languages: str) -> list[Block]:
    """Every block in one of these languages, or every block."""
    found = []
    for path in PAGES:
        text = path.read_text()
        for match in _FENCE.finditer(text):
            above = text[: match.start()].splitlines()
            heading = next((line for line in reversed(above) if line.startswith("#")), "")
            found.append(Block(str(path.relative_to(ROOT)), heading, len(above) + 1, match[1], match[2]))
    return [block for block in found if not languages or block.language in languages]


def words_of(line: str) -> list[str]:
    """The words of a command, without a comment and without a redirection."""
    return shlex.split(line.partition(" > ")[0], comments=True)


def inline_commands() -> list[tuple[str, str]]:
    """The commands of ours that stand within sentences, each with its page."""
    found = []
    for path in PAGES:
        text = _FENCE.sub("", path.read_text())
        found += [(path.name, words) for words in re.findall(r"`aisimulate ([^`]+)`", text)]
    return found
