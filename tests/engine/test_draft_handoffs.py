"""Pairs of pools with drafts or with a prefill cadence, of vLLM and TensorRT-LLM, against the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .test_sglang_handoff import check_equals

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
