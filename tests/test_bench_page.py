"""docs/performance.md holds what the benchmark printed, of every scenario."""

from __future__ import annotations

import re

import pytest

from tools.bench.page import PAGE, written
from tools.bench.scenarios import BENCHMARKS
from tools.bench.table import HEADER


def test_the_page_has_a_row_of_every_scenario():
    block = PAGE.read_text().partition("<!-- make bench")[2].partition("<!-- end of make bench -->")[0]
    assert re.search("^" + r"\s+".join(HEADER) + "$", block, re.MULTILINE)
    assert {line.split()[0] for line in block.splitlines() if re.match(r"\d\d", line)} >= {
        benchmark.name for benchmark in BENCHMARKS
    }
    assert "load average" in block


def test_lines_take_the_place_of_those_before():
    once = written(PAGE.read_text(), ["a", "b"])
    assert "```text\na\nb\n```\n<!-- end" in once
    assert written(once, ["c"]) == written(PAGE.read_text(), ["c"])
    with pytest.raises(ValueError, match="0 blocks"):
        written("nothing", [])
