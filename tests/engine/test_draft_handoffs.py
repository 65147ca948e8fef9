"""Pairs of pools with drafts or with a prefill cadence, of vLLM and TensorRT-LLM, against the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aisimulate.replay.execute import execute
from oracle.disagg import replay_disaggregated
from oracle.handoff_records import handoff_records, report_handoffs

from .test_sglang_handoff import check_equals

DATA = Path(__file__).parents[1] / "data/engine"
RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/engine/draft_handoff_examples.jsonl").open()
]


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_equals_the_reference(case: dict[str, Any], tmp_path: Path) -> None:
    check_equals(case, tmp_path)


def test_the_recordings_have_every_kind() -> None:
    ranks = [case["payload"]["spec"]["engine"]["decode"]["rank"] for case in RECORDED]
    assert {rank["backend"] for rank in ranks if "aic_nextn" in rank} == {"vllm", "trtllm"}
    assert any(rank.get("prefill_schedule_interval", 1) > 1 for rank in ranks)


def test_requests_that_take_each_others_blocks_end(tmp_path: Path) -> None:
    """Requests of several ranks preempt each other in turn, while others hold blocks: the reference hangs."""
    case = json.loads((DATA / "draft_handoff_circle.json").read_text())
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in case["rows"]))
    case["payload"]["traffic"]["trace_paths"] = [str(path)]
    report = execute(case["payload"])

    assert [record["terminal_status"] for record in report["per_request"]] == ["completed"] * len(
        case["rows"]
    )
    assert report_handoffs(report) == handoff_records(replay_disaggregated(case["payload"]))


def test_a_head_waits_for_blocks_of_prompts_that_are_handed_over(tmp_path: Path) -> None:
    """It would fit but for the blocks it shares, and nobody runs whom it could preempt."""
    case = json.loads((DATA / "draft_handoff_blocked.json").read_text())
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in case["rows"]))
    case["payload"]["traffic"]["trace_paths"] = [str(path)]
    records = execute(case["payload"])["per_request"]

    ends = sorted(record["terminal_time_ms"] for record in records)
    assert ends == pytest.approx(case["terminal_times_ms"], abs=1e-6)
