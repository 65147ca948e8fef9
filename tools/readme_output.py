#!/usr/bin/env python3
"""Keep the demo's output in README.md real.

usage: python tools/readme_output.py [--check]

Runs the demo and writes what it prints into the README. With --check it only compares (1 if they differ).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DEMO = "examples/aisimulate/spica/configs/quickstart.yaml"
BLOCK = re.compile(r"(<!-- demo output:[^\n]*\n```text\n).*?(```\n<!-- end of demo output -->)", re.DOTALL)


def demo_output() -> str:
    """What the demo prints on stdout, without trailing spaces and blank lines around it."""
    command = [sys.executable, "-m", "aisimulate", "spica", "--config", DEMO, "--quiet"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def filled(readme: str, output: str) -> str:
    """Put `output` into the marked block. Raises ValueError when there is none."""
    text, count = BLOCK.subn(lambda match: f"{match[1]}{output}{match[2]}", readme)
    if count != 1:
        raise ValueError(f"README.md has {count} demo blocks, expected 1")
    return text


def main(arguments: list[str]) -> int:
    """Write or check the block; return the exit code."""
    before = README.read_text("utf-8")
    after = filled(before, demo_output())
    if "--check" not in arguments:
        README.write_text(after, "utf-8")
    elif before != after:
        print("README.md: the demo prints something else now; run tools/readme_output.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
