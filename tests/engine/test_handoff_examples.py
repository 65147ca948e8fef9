"""Handoffs that the reference was run on (E..: spec 01 section 9), by the oracle and by the replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aisimulate.replay.execute import execute
from oracle.disagg import replay_disaggregated
from oracle.handoff_records import handoff_records, report_handoffs

EXAMPLES = json.loads((Path(__file__).parents[1] / "data/engine/handoff_examples.json").read_text())
TIMES = (
    "first_admit_ms",
    "first_token_ms",
    "last_token_ms",
    "terminal_time_ms",
    "prefill_admit_ms",
    "source_held_ms",
    "destination_reserved_ms",
    "destination_activated_ms",
    "decode_admit_ms",
    "source_released_ms",
)
RANK = {
    "backend": "vllm",
    "num_gpu_blocks": 64,
    "block_size": 4,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 64,
    "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0},
}
LINK = {"kv_transfer_bytes_per_token": 1_000_000, "kv_transfer_bandwidth": 1.0}


def payload_of(
    requests: list[dict[str, Any]], prefill: dict[str, Any], decode: dict[str, Any], folder: Path, **more: Any
) -> dict[str, Any]:
    """The payload of requests (t, isl, osl, h) on one prefill and one decode worker."""
    path = folder / "trace.jsonl"
    rows = [
        {"timestamp": r["t"], "input_length": r["isl"], "output_length": r["osl"], "hash_ids": r["h"]}
        | r.get("row", {})
        for r in requests
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pool = {"initial_workers": 1}
    spec = {
        "topology": {"kind": "disaggregated", "prefill": pool, "decode": pool, **more},
        "engine": {"prefill": {"rank": prefill}, "decode": {"rank": decode}},
        "requests": [],
    }
    traffic = {"source_type": "trace", "trace_paths": [str(path)], "trace_block_size": prefill["block_size"]}
    return {"spec": spec, "traffic": traffic}


def request(t: float, isl: int, osl: int, h: list[int], **row: Any) -> dict[str, Any]:
    return {"t": t, "isl": isl, "osl": osl, "h": h, "row": row}


def records_of(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """The records, in the order of the trace, equal to the oracle's."""
    report = execute(payload)
    assert report_handoffs(report) == handoff_records(replay_disaggregated(payload))
    assert report["unfinished_requests"] == 0
    return sorted(report["per_request"], key=lambda row: int(row["uuid"]))


@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: case["name"][:3])
def test_equals_the_reference(case: dict[str, Any], tmp_path: Path) -> None:
    records = records_of(payload_of(case["requests"], case["prefill"], case["decode"], tmp_path))

    def key(row: dict[str, Any]) -> tuple[float, ...]:
        return row["arrival_time_ms"], row["input_length"], row["terminal_time_ms"]

    wanted = sorted(case["expect"], key=key)
    assert len(records) == len(wanted)
    for record, want in zip(sorted(records, key=key), wanted, strict=True):
        assert {name: record[name] for name in TIMES} == {name: want.get(name) for name in TIMES}
        history = [[entry["at_ms"], entry["reused_input_tokens"]] for entry in record["admission_history"]]
        assert history == want["admissions"]
        for name in ("output_length", "reused_input_tokens", "terminal_status"):
            assert record[name] == want[name]


def test_the_bytes_of_the_prompt_take_time(tmp_path: Path) -> None:
    """E43: 8 tokens of 1 MB at 1 GB/s; the first visible token is one decode step after them."""
    (record,) = records_of(
        payload_of([request(0, 8, 4, [1, 2])], RANK | LINK, RANK, tmp_path, handoff_latency_ms=5.0)
    )

    assert (record["source_held_ms"], record["destination_activated_ms"]) == (10.0, 18.0)
    assert (record["first_token_ms"], record["last_token_ms"]) == (19.0, 22.0)


def test_only_missing_blocks_travel(tmp_path: Path) -> None:
    """E46: the second prompt finds 8 of its 9 tokens at the destination; one block is 4 tokens."""
    link = LINK | {"kv_transfer_timing_mode": "destination_missing"}
    requests = [request(0, 8, 2, [1, 2]), request(50, 9, 2, [1, 2, 3])]
    _, record = records_of(payload_of(requests, RANK | link, RANK, tmp_path))

    assert record["reused_input_tokens"] == 8
    assert (record["destination_activated_ms"], record["first_token_ms"]) == (64.0, 65.0)


@pytest.mark.parametrize("link", [{}, LINK | {"kv_transfer_bandwidth": 0.0}])
def test_the_latency_counts_where_the_link_is_not_known(link: dict[str, Any], tmp_path: Path) -> None:
    payload = payload_of([request(0, 8, 1, [1, 2])], RANK | link, RANK, tmp_path, handoff_latency_ms=7.0)
    (record,) = records_of(payload)

    assert (record["destination_activated_ms"], record["terminal_time_ms"]) == (17.0, 18.0)


@pytest.mark.parametrize(
    ("decode", "reason"),
    [
        ({"num_gpu_blocks": 4}, "prompt_exceeds_kv_capacity"),
        ({"max_model_len": 20}, "prompt_exceeds_max_model_len"),
    ],
)
def test_a_destination_that_can_never_be_fails(decode: dict[str, Any], reason: str, tmp_path: Path) -> None:
    """The request fails after its prefill, its session ends, and its blocks are free for the next one."""
    requests = [
        request(0, 20, 4, [1, 2, 3, 4, 5], session_id="a"),
        request(0, 4, 4, [9], session_id="a", delay=1.0),
        request(0, 7, 4, [6, 7]),
    ]
    prefill = RANK | {"num_gpu_blocks": 5}
    payload = payload_of(requests, prefill, RANK | decode, tmp_path)
    failed, other = records_of(payload)

    assert (failed["terminal_status"], failed["reason"]) == ("failed", reason)
    assert (failed["terminal_time_ms"], failed["source_held_ms"]) == (10.0, 10.0)
    assert (failed["decode_worker_idx"], failed["destination_reserved_ms"]) == (None, None)
    assert [place["pool"] for place in failed["routing_history"]] == ["prefill", "decode"]
    assert (other["terminal_status"], other["prefill_admit_ms"]) == ("completed", 10.0)
    report = execute(payload)
    assert report["num_requests"] == 2
    assert report["rejection_reasons"] == {reason: 1}


def test_a_rejected_prefill_has_no_destination(tmp_path: Path) -> None:
    requests = [request(0, 20, 4, [1, 2, 3, 4, 5]), request(0, 7, 4, [6, 7])]
    rejected, other = records_of(payload_of(requests, RANK | {"max_model_len": 20}, RANK, tmp_path))

    assert (rejected["terminal_status"], rejected["reason"]) == ("rejected", "prompt_exceeds_max_model_len")
    assert [place["pool"] for place in rejected["routing_history"]] == ["prefill"]
    assert (rejected["prefill_worker_idx"], rejected["decode_worker_idx"]) == (0, None)
    assert other["terminal_status"] == "completed"


def test_what_outgrows_the_decode_pool_alone_is_rejected(tmp_path: Path) -> None:
    (record,) = records_of(
        payload_of([request(0, 12, 20, [1, 2, 3])], RANK, RANK | {"num_gpu_blocks": 4}, tmp_path)
    )

    assert (record["terminal_status"], record["reason"]) == ("rejected", "sequence_exceeds_kv_capacity")
    assert record["output_length"] == 5


def test_a_waiting_destination_passes_a_head_that_waits_for_its_blocks(tmp_path: Path) -> None:
    """A preempted request waits for blocks that the next one in the queue holds: that one runs first."""
    requests = [request(0, 8, 20, [1, 2]), request(0, 8, 20, [3, 4]), request(1, 8, 2, [5, 6])]
    decode = RANK | {"num_gpu_blocks": 6, "max_num_seqs": 2}
    records = records_of(payload_of(requests, RANK | LINK, decode, tmp_path))

    assert {record["terminal_status"] for record in records} <= {"completed", "rejected"}
