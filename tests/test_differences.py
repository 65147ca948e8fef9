"""docs/differences.md: each difference from the reference is held by tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/differences.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_row_names_tests_that_exist() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "---" not in line]
    heads = [row for row in rows if row.endswith("| tests |")]
    assert len(heads) == 4
    assert all(NAMED.search(row) for row in rows if row not in heads)
    missing = [
        f"{path}::{name}"
        for path, name in NAMED.findall(PAGE)
        if not (ROOT / path).is_file() or f"def {name}(" not in (ROOT / path).read_text()
    ]
    assert missing == []


def test_the_readme_leads_there() -> None:
    assert "docs/differences.md" in (ROOT / "README.md").read_text()
