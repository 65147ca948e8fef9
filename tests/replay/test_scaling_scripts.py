"""Pools that scale by random scripts: all requests, and what the policy is shown, as the reference ran them.

Recorded with ai-dynamo-runtime 1.6.1. A case that is named KIND-SEED is that instance of
tools/parity/fuzz_scaling.py (`crowded`: in a smaller pool), whose script stops asking for ticks when it ends;
it has all requests. The other ones have the changes of the pools, and less of what is shown.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker
from aisimulate.replay.scaling import ScriptedPolicy

from .test_scaling import same, scripted, theirs

DATA = Path(__file__).parents[1] / "data/replay/scripted_scaling.json.gz"
CASES: list[dict[str, Any]] = json.loads(gzip.decompress(DATA.read_bytes()))


def outcome(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(round(value * 1e6) if isinstance(value, float) else value for value in record.values())


def check_shown(case: dict[str, Any], policy: ScriptedPolicy) -> None:
    """Compare what a policy was shown; ours is asked on and on, where the script of the reference ended."""
    shown = policy.snapshots[: len(case["shown"])] if case["ends_with_script"] else policy.snapshots
    assert len(shown) == len(case["shown"])
    for want, got in zip(case["shown"], map(theirs, shown), strict=True):
        part = got if case["ends_with_script"] else {name: got[name] for name in want}
        assert same(want, part), want["now_ms"]


@pytest.mark.parametrize("watched", [False, True], ids=["alone", "watched"])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_equals_the_reference(case: dict[str, Any], watched: bool, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in case["rows"]))
    payload = case["payload"] | {"traffic": case["payload"]["traffic"] | {"trace_paths": [str(trace)]}}
    policy = scripted(case["plan"])
    report = execute(payload, scaling=policy, observers=[InvariantChecker(thorough=True)] if watched else [])
    check_shown(case, policy)
    if "operations" in case:
        assert same(case["operations"], report["lifecycle_operations"])
    if "records" in case:
        columns = case["records"][0]
        rows = [{name: record[name] for name in columns} for record in report["per_request"]]
        assert Counter(map(outcome, rows)) == Counter(map(outcome, case["records"]))


def test_every_kind_is_there() -> None:
    specs = [case["payload"]["spec"] for case in CASES]
    ranks = [(spec["engine"].get("decode") or spec["engine"])["rank"] for spec in specs]
    kinds = {
        (spec["topology"]["kind"], rank["backend"], "aic_nextn" in rank)
        for spec, rank in zip(specs, ranks, strict=True)
    }
    assert len(kinds) == 11  # `test_scaling` has aggregated fleets of TensorRT-LLM without drafts
    queued = [
        item["num_queued_decode"]
        for case in CASES
        for shown in case["shown"]
        for item in shown["decode_fpm_snapshots"]
    ]
    assert max(queued) > 1
    assert any((shown["traffic"]["avg_accept_length"] or 1) > 1 for case in CASES for shown in case["shown"])
