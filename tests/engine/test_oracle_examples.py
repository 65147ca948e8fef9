"""The oracle against examples that the reference engine was run on (E..: spec 01 section 9)."""

import json
from pathlib import Path

import pytest

from oracle.fleet import Outcome, replay
from oracle.records import oracle_records

FOLDER = Path(__file__).parents[1] / "data/engine"
FILES = ("vllm_examples.json", "trtllm_and_group_examples.json")
EXAMPLES = [case for name in FILES for case in json.loads((FOLDER / name).read_text())]
# What the reference aborts on, we reject: these are the instants and reasons.
REJECTED_INSTEAD = {
    "E54": (0, "prompt_exceeds_token_budget", 0),
    "E55": (10_000_000, "sequence_exceeds_kv_capacity", 1),
}
POSSIBLE = [case for case in EXAMPLES if "error" not in case]
IMPOSSIBLE = [case for case in EXAMPLES if "error" in case]


def payload_of(case: dict, folder: Path) -> dict:
    """The payload of an example on one worker."""
    path = folder / "trace.jsonl"
    rows = [
        {"timestamp": r["t"], "input_length": r["isl"], "output_length": r["osl"], "hash_ids": r["h"]}
        | r.get("row", {})
        for r in case["requests"]
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    traffic = {
        "source_type": "trace",
        "trace_paths": [str(path)],
        "trace_block_size": case["rank"]["block_size"],
    }
    if "replay_concurrency" in case:
        traffic["replay_concurrency"] = case["replay_concurrency"]
    spec = {
        "version": 1,
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"dp_size": case["dp_size"], "tensor_parallel_size": 1, "rank": case["rank"]},
        "record_per_request": True,
        "requests": [],
    }
    return {"spec": spec, "traffic": traffic}


def run(case: dict, folder: Path) -> Outcome:
    return replay(payload_of(case, folder))


def ns(ms: float | None) -> int | None:
    return None if ms is None else round(ms * 1e6)


@pytest.mark.parametrize("case", POSSIBLE, ids=lambda case: case["name"][:3])
def test_equals_the_reference_at_one_ns(case: dict, tmp_path: Path) -> None:
    keys = ("arrival_time_ms", "input_length", "terminal_time_ms")
    records = sorted(
        oracle_records(run(case, tmp_path)).values(), key=lambda r: (r["arrival"], r["input"], r["terminal"])
    )
    wanted = sorted(case["expect"], key=lambda want: [want[key] for key in keys])

    assert len(records) == len(wanted)
    for record, want in zip(records, wanted, strict=True):
        assert record["arrival"] == ns(want["arrival_time_ms"])
        assert record["admissions"] == [(ns(at), reused) for at, reused in want["admissions"]]
        assert record["first_token"] == ns(want.get("first_token_ms"))
        assert record["last_token"] == ns(want.get("last_token_ms"))
        assert record["terminal"] == ns(want["terminal_time_ms"])
        assert record["emitted"] == want["output_length"]
        assert record["status"] == want["terminal_status"]


@pytest.mark.parametrize("case", IMPOSSIBLE, ids=lambda case: case["name"][:3])
def test_rejects_what_the_reference_aborts_on(case: dict, tmp_path: Path) -> None:
    records = list(oracle_records(run(case, tmp_path)).values())

    assert [(r["terminal"], r["reason"], r["emitted"]) for r in records] == [
        REJECTED_INSTEAD[case["name"][:3]]
    ]
    assert {r["status"] for r in records} == {"rejected"}


def test_every_example_is_run() -> None:
    assert len(POSSIBLE) == 20 + 24
    assert {case["name"][:3] for case in IMPOSSIBLE} == set(REJECTED_INSTEAD)
