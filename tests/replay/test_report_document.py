"""docs/report.md names every key that a report or a record of a request can have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aisimulate.replay.execute import execute
from aisimulate.replay.parts import EARLY_STOP_KEY, FIRST_SESSIONS_KEY

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "report.md").read_text()
NAMED = set(re.findall(r"`([A-Za-z0-9_]+)`", DOCUMENT))
STATISTIC = re.compile(r"^(mean|min|max|median|p75|p90|p95|p99|std)_(?=.)")
# Keys in the code that builds reports, as they stand there at the beginning of a line of a mapping.
IN_CODE = re.compile(
    r'^\s+"([a-z0-9_]+)": |report\["([a-z0-9_]+)"\] = |added\["([a-z0-9_]+)"\] = ', re.MULTILINE
)
RANK = {"backend": "vllm", "num_gpu_blocks": 1000}
TIMES = {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0}
TRAFFIC = {
    "source_type": "synthetic",
    "load_type": "concurrency",
    "concurrency": 2,
    "isl": 64,
    "osl": 4,
    "request_count": 4,
}
ENGINE = {"tensor_parallel_size": 1, "rank": RANK | {"timing_model": TIMES}}
AGG = {
    "version": 1,
    "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
    "engine": ENGINE,
    "sla": {"ttft_ms": 100, "itl_ms": 10},
}
PAIR = {
    "version": 1,
    "topology": {
        "kind": "disaggregated",
        "prefill": {"initial_workers": 1},
        "decode": {"initial_workers": 1},
    },
    "engine": {"prefill": ENGINE, "decode": ENGINE},
}


@pytest.mark.parametrize("spec", [AGG, PAIR], ids=["aggregated", "pair"])
def test_every_key_of_a_replay_is_described(spec):
    report = execute({"spec": spec, "traffic": TRAFFIC})
    keys = {STATISTIC.sub("", key) for key in report} | set(report["per_request"][0])
    assert keys - NAMED == set()


def test_keys_of_candidates_replayed_in_part_are_described():
    assert {EARLY_STOP_KEY, FIRST_SESSIONS_KEY} <= NAMED


@pytest.mark.parametrize("module", ["report.py", "agentic_report.py"])
def test_every_key_in_the_code_is_described(module):
    text = (ROOT / "src" / "aisimulate" / "replay" / module).read_text()
    found = {name for match in IN_CODE.findall(text) for name in match if name}
    # Parts of nested values, which the document sums up.
    nested = {"source", "graph_digest", "block_size", "node_count", "play_count", "source_models"}
    nested |= {"request_id", "play_id", "conversation_id", "causal_terminal_ms", "settled_at_ms"}
    nested |= {"failure_request_id", "failure_status"}
    assert found - nested - NAMED == set()
    assert found
