"""docs/planner.md explains every key and every reason of a decision, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from aisimulate.planner import reasons
from aisimulate.replay.execute import execute

SECTION = (
    (Path(__file__).parents[2] / "docs/planner.md").read_text().partition("## The log of decisions\n")[2]
)


def first_cells(title: str) -> list[str]:
    """The names in the first column of the table with this title."""
    rows = SECTION.partition(f"| {title} |")[2].split("\n\n")[0].splitlines()[2:]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def test_every_reason_is_explained_once() -> None:
    words = [value for name, value in vars(reasons).items() if name.isupper()]
    assert sorted(first_cells("reason")) == sorted(words)


def test_every_key_is_explained_once() -> None:
    request = {"arrival_time_ms": 0, "input_tokens": 8, "output_tokens": 2}
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"rank": {"timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0}}},
        "adapters": {"scaling": {"provider": "planner", "config": {"planner_mode": "direct"}}},
        "requests": [{"id": "a", **request}, {"id": "b", **request, "arrival_time_ms": 9000}],
    }
    decision = execute(spec)["scaling_decisions"][0]
    assert first_cells("key of a decision") == list(decision)
    assert all(f"`{key}`" in SECTION for key in decision["observed"])
