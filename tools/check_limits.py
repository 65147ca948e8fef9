#!/usr/bin/env python3
"""Check that functions and files stay short; ruff checks their complexity.

usage: python tools/check_limits.py FOLDER...

Exits with 1 when a hard limit is broken. Above the limits we aim at, it only prints notes.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limit:
    """Lines that we aim at, and that nothing may exceed."""

    aim: int
    hard: int


FUNCTION = Limit(aim=40, hard=60)
FILE = Limit(aim=400, hard=600)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something longer than it should be."""

    place: str
    lines: int
    limit: Limit

    @property
    def breaks(self) -> bool:
        """Whether it is above the hard limit."""
        return self.lines > self.limit.hard

    def __str__(self) -> str:
        bound, word = (self.limit.hard, "error") if self.breaks else (self.limit.aim, "note")
        return f"{word}: {self.place}: {self.lines} lines (limit {bound})"


def check_source(path: Path, text: str) -> Iterator[Finding]:
    """Find what is too long in the text of one module."""
    lines = len(text.splitlines())
    if lines > FILE.aim:
        yield Finding(str(path), lines, FILE)
    for node in ast.walk(ast.parse(text, filename=str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION.aim:
                yield Finding(f"{path}:{node.lineno} {node.name}", length, FUNCTION)


def main(folders: Sequence[str]) -> int:
    """Check every module below `folders`; return the exit code."""
    if not folders:
        print("usage: python tools/check_limits.py FOLDER...", file=sys.stderr)
        return 2
    modules = sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
    findings = [finding for path in modules for finding in check_source(path, path.read_text("utf-8"))]
    for finding in findings:
        print(finding)
    return 1 if any(finding.breaks for finding in findings) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
