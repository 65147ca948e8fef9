"""Scripted scaling of pairs of pools and of engines with drafts, as the reference ran it.

Recorded with tools/parity/fuzz_scaling.py. A policy has to be shown the same at every tick.
"""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from aisimulate.replay.execute import execute
from aisimulate.replay.scaling import ScriptedPolicy

DATA = Path(__file__).parents[1] / "data/planner/scripted_scaling.json.gz"
CASES: list[dict[str, Any]] = json.loads(gzip.decompress(DATA.read_bytes()))


def first_difference(want: Any, got: Any, path: str = "") -> str | None:
    """Say where `got` differs from `want`, whose keys alone count."""
    if isinstance(want, dict):
        found = (first_difference(value, got[key], f"{path}.{key}") for key, value in want.items())
        return next((text for text in found if text is not None), None)
    if isinstance(want, list):
        if len(want) != len(got):
            return f"{path}: {got} is not {want}"
        found = (
            first_difference(*pair, f"{path}[{n}]") for n, pair in enumerate(zip(want, got, strict=True))
        )
        return next((text for text in found if text is not None), None)
    is_same = math.isclose(want, got, rel_tol=1e-9, abs_tol=1e-9) if isinstance(want, float) else want == got
    return None if is_same else f"{path}: {got} is not {want}"


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_policy_sees_what_that_of_the_reference_sees(case: dict[str, Any], tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in case["rows"]))
    payload = case["payload"]
    payload["traffic"]["trace_paths"] = [str(trace)]
    policy = ScriptedPolicy(**case["plan"])
    report = execute(payload, scaling=policy)
    assert first_difference(case["shown"], policy.snapshots) is None
    assert first_difference(case["operations"], report["lifecycle_operations"]) is None


def test_every_kind_is_there() -> None:
    kinds = {tuple(case["name"].rsplit("-", 2)[:2]) for case in CASES}
    assert len(kinds) == 8
    queued = [
        item["num_queued_decode"]
        for case in CASES
        for shown in case["shown"]
        for item in shown["decode_fpm_snapshots"]
    ]
    assert max(queued) > 1
    assert any((shown["traffic"]["avg_accept_length"] or 1) > 1 for case in CASES for shown in case["shown"])
