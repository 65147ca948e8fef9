"""Host memory and disks with too little room, under the reference's order among what arrived together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aisimulate.engine.disk_tier import DiskTier
from aisimulate.engine.host_tier import BlockIdentities, HostTier
from tools.parity.content_order import ContentOrder, follow, xxh3

from .test_sglang_handoff import check_equals

RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/engine/offload_tight_examples.jsonl").open()
]
# Of the bytes 0, 1, 2, .. by the xxhash library.
HASHES = {4: 0xC9D326BEC510E851, 8: 0x83B1D2CDAF40C762, 16: 0xD6D1970C1B420FA4, 32: 0x5916B23D0AADD2AF}


@pytest.mark.parametrize("size", HASHES)
def test_hashes_are_those_of_the_library(size: int) -> None:
    assert xxh3(bytes(range(size))) == HASHES[size]


@pytest.fixture
def follow_it(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`follow`, whose effect ends with the test."""
    for kind, name in (
        (BlockIdentities, "__init__"),
        (BlockIdentities, "of"),
        (HostTier, "_file"),
        (DiskTier, "_file"),
    ):
        monkeypatch.setattr(kind, name, getattr(kind, name))
    return follow


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_equals_the_reference_under_its_order(case: dict[str, Any], tmp_path: Path, follow_it: Any) -> None:
    block_tokens = case["payload"]["spec"]["engine"]["rank"]["block_size"]
    follow_it(ContentOrder(case["rows"], block_tokens))
    check_equals(case, tmp_path)


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_differs_under_ours(case: dict[str, Any], tmp_path: Path) -> None:
    """Else the recordings would say nothing about it."""
    with pytest.raises(AssertionError):
        check_equals(case, tmp_path)
