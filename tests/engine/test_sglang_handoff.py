"""Handoffs of SGLang pools: the destination is reserved first (spec 01 section 6, E49)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aisimulate.replay.execute import execute

from .test_handoff_examples import payload_of, request

# Small replays, hand-made and random, that the reference was run on.
RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/engine/sglang_handoff_examples.jsonl").open()
]
RANK = {
    "backend": "sglang",
    "num_gpu_blocks": 64,
    "block_size": 4,
    "max_num_seqs": 16,
    "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0},
    "kv_transfer_bytes_per_token": 1_000_000,
    "kv_transfer_bandwidth": 1.0,
}


def ns(row: dict[str, Any], name: str) -> int | None:
    value = row[name]
    return None if value is None else round(value * 1e6)


def outcome(row: dict[str, Any]) -> str:
    """What is compared of a record, at 1 ns."""
    times = [ns(row, name) for name in sorted(row) if name.endswith("_ms")]
    rest = {name: row[name] for name in sorted(row) if not name.endswith("_ms")}
    return json.dumps([times, rest])


def like(row: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The columns of a record that the recorded ones have."""
    more = {
        "admissions": [[entry["at_ms"], entry["reused_input_tokens"]] for entry in row["admission_history"]],
        "pools": [place["pool"] for place in row["routing_history"]],
    }
    return {name: more[name] if name in more else row[name] for name in wanted}


def records_of(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """The records, in the order of the trace."""
    report = execute(payload)
    assert report["unfinished_requests"] == 0
    return sorted(report["per_request"], key=lambda row: int(row["uuid"]))


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_equals_the_reference(case: dict[str, Any], tmp_path: Path) -> None:
    check_equals(case, tmp_path)


def check_equals(case: dict[str, Any], folder: Path) -> None:
    """Hold a replay against what was recorded of the reference."""
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in case["rows"]))
    case["payload"]["traffic"]["trace_paths"] = [str(path)]
    report = execute(case["payload"])
    wanted = case["expect"]
    rows = [like(row, wanted[0]) for row in report["per_request"]]
    for row in (*rows, *wanted):
        row["admissions"] = [[round(at_ms * 1e6), reused] for at_ms, reused in row["admissions"]]
    assert sorted(map(outcome, rows)) == sorted(map(outcome, wanted))


def test_the_destination_is_reserved_at_the_arrival(tmp_path: Path) -> None:
    """E49, with a second request that arrives while the first is computed."""
    requests = [request(0, 8, 4, [1, 2]), request(4, 8, 4, [3, 4])]
    records = records_of(payload_of(requests, RANK, RANK, tmp_path))

    names = ("destination_reserved_ms", "source_held_ms", "destination_activated_ms", "last_token_ms")
    assert [[record[name] for name in names] for record in records] == [
        [0.0, 10.0, 18.0, 22.0],
        [4.0, 20.0, 28.0, 32.0],
    ]
    assert [place["pool"] for place in records[0]["routing_history"]] == ["decode", "prefill"]


def test_a_prompt_that_no_destination_can_hold_is_not_computed(tmp_path: Path) -> None:
    requests = [request(0, 20, 4, [1, 2, 3, 4, 5]), request(0, 8, 4, [6, 7])]
    failed, other = records_of(payload_of(requests, RANK, RANK | {"num_gpu_blocks": 4}, tmp_path))

    assert (failed["terminal_status"], failed["reason"]) == ("failed", "prompt_exceeds_kv_capacity")
    assert (failed["terminal_time_ms"], failed["prefill_worker_idx"]) == (0.0, None)
    assert [place["pool"] for place in failed["routing_history"]] == ["decode"]
    assert (other["terminal_status"], other["first_token_ms"]) == ("completed", 19.0)


@pytest.mark.parametrize("busy", [False, True])
def test_a_rejected_prefill_gives_its_destination_back(busy: bool, tmp_path: Path) -> None:
    """The pages of the decode pool are all its, until the prefill worker has refused it."""
    requests = [request(40, 20, 4, [1, 2, 3, 4, 5]), request(40, 12, 2, [6, 7, 8])]
    if busy:
        requests.insert(0, request(0, 4, 60, [10]))
    pages = 5 + 16 * busy
    decode = RANK | {"num_gpu_blocks": pages}
    payload = payload_of(requests, RANK | {"num_gpu_blocks": 4}, decode, tmp_path)
    *_, rejected, other = records_of(payload)

    assert (rejected["terminal_status"], rejected["reason"]) == ("rejected", "prompt_exceeds_kv_capacity")
    assert rejected["destination_reserved_ms"] is not None
    assert rejected["destination_activated_ms"] is None
    assert other["terminal_status"] == "completed"


def test_a_prefill_waits_for_pages_of_prompts_on_their_way(tmp_path: Path) -> None:
    requests = [request(0, 8, 4, [1, 2]), request(0, 12, 4, [3, 4, 5])]
    first, second = records_of(payload_of(requests, RANK | {"num_gpu_blocks": 4}, RANK, tmp_path))

    assert first["source_released_ms"] == 18.0
    assert (second["prefill_admit_ms"], second["terminal_status"]) == (18.0, "completed")


@pytest.mark.parametrize("blocks", [3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("chunk", [4, 8, 64])
def test_every_request_ends_where_the_decode_pool_is_crowded(blocks: int, chunk: int, tmp_path: Path) -> None:
    """Retracted requests, destinations and arrived prompts wait for pages, but never for ever."""
    requests = [
        request(
            3.0 * n,
            1 + (5 * n) % 12,
            (0, 1, 7, 25)[n % 4],
            [100 * n, 100 * n + 1, 100 * n + 2][: -(-(1 + (5 * n) % 12) // 4)],
        )
        for n in range(24)
    ]
    decode = RANK | {
        "num_gpu_blocks": blocks,
        "max_num_seqs": 3,
        "sglang": {"chunked_prefill_size": chunk, "schedule_conservativeness": 0.1, "clip_max_new_tokens": 4},
    }
    records = records_of(payload_of(requests, RANK, decode, tmp_path))

    assert len(records) == 24
    assert {record["terminal_status"] for record in records} <= {"completed", "rejected", "failed"}
