"""Host memory of decode workers, and host memory that pools of a pair share: equality with the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aisimulate.core.errors import InputError, ReplayError, UnsupportedError
from aisimulate.engine.offload_lanes import Copy
from aisimulate.engine.offload_pool import OffloadPool
from aisimulate.engine.sequence import Sequence
from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker

from .test_sglang_handoff import check_equals

RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/engine/offload_pair_examples.jsonl").open()
]
HOST = {"num_host_blocks": 64, "d2h_bandwidth_gbps": 1.0, "h2d_bandwidth_gbps": 1.0}
SHARED = {**HOST, "scope": "cluster_shared", "kv_layout_id": "one"}
RANK = {
    "num_gpu_blocks": 6,
    "block_size": 4,
    "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0},
    "kv_cache_bytes_per_token": 250_000,  # a block moves in 1 ms
}


def payload(prefill: dict[str, Any], decode: dict[str, Any], requests: int = 1) -> dict[str, Any]:
    """Prompts of two blocks and a token, 20 ms apart, with six tokens out; each role as given."""
    pools = {role: {"initial_workers": 1} for role in ("prefill", "decode")}
    ranks = {"prefill": RANK | prefill, "decode": RANK | decode}
    return {
        "spec": {
            "topology": {"kind": "disaggregated", **pools, "handoff_latency_ms": 0.0},
            "engine": {role: {"rank": rank} for role, rank in ranks.items()},
            "record_per_request": True,
            "requests": [
                {
                    "id": f"r{number}",
                    "arrival_time_ms": 20.0 * number,
                    "input_tokens": 9,
                    "output_tokens": 6,
                    "input_token_ids": [number * 100 + token for token in range(9)],
                }
                for number in range(requests)
            ],
        }
    }


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_equals_the_reference(case: dict[str, Any], tmp_path: Path) -> None:
    check_equals(case, tmp_path)
    checked = execute(case["payload"], observers=[InvariantChecker(thorough=True)])
    completed = sum(row["terminal_status"] == "completed" for row in case["expect"])
    assert checked["completed_requests"] == completed


def test_what_arrives_is_stored_once_where_all_share() -> None:
    """Two blocks are there from the prefill worker, and the decode worker has nothing to add."""
    report = execute(payload({"native_host_offload": SHARED}, {"native_host_offload": SHARED}))
    assert report["g2_domains"] == [{"capacity_blocks": 64, "resident_blocks": 2, "used_blocks": 2}]


def test_a_prompt_does_not_come_into_blocks_that_are_being_copied() -> None:
    """Its three blocks are two free ones and one of the prompt before, whose store takes 40 ms."""
    slow = {"native_host_offload": {**HOST, "d2h_bandwidth_gbps": 0.05}}
    (_, second), (_, other) = (
        execute(payload({}, decode, requests=2))["per_request"]
        for decode in ({**slow, "num_gpu_blocks": 4}, {"num_gpu_blocks": 4})
    )
    assert other["destination_reserved_ms"] == 30.0
    assert second["destination_reserved_ms"] == 51.0


def test_blocks_of_who_is_rejected_go_to_who_waits() -> None:
    """The second gives way, loads two blocks, and has more to compute than the budget; the third waits."""
    small = {
        "num_gpu_blocks": 6,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 2,
        "native_host_offload": {**HOST, "h2d_bandwidth_gbps": 0.1},
    }
    case = payload({"num_gpu_blocks": 64}, small, requests=3)
    for number, (arrival_ms, tokens, out) in enumerate([(0.0, 11, 12), (0.0, 11, 6), (22.0, 19, 2)]):
        case["spec"]["requests"][number] |= {
            "arrival_time_ms": arrival_ms,
            "input_tokens": tokens,
            "output_tokens": out,
            "input_token_ids": [number * 100 + token for token in range(tokens)],
        }
    statuses = [row["terminal_status"] for row in execute(case)["per_request"]]
    assert statuses == ["completed", "rejected", "completed"]


@pytest.mark.parametrize("output_tokens", [6, 12], ids=["for its blocks", "for a pass that waits"])
def test_who_waits_for_a_copy_that_never_ends_is_told_of(output_tokens: int) -> None:
    """Prompts have no place until blocks have moved, in more than a hundred years."""
    never = {
        "num_gpu_blocks": 4,
        "max_num_seqs": 1,
        "native_host_offload": {**HOST, "d2h_bandwidth_gbps": 1e-13},
    }
    case = payload({}, never, requests=3)
    for request in case["spec"]["requests"]:
        request |= {"output_tokens": output_tokens, "arrival_time_ms": 0.0}
    with pytest.raises(ReplayError, match="requests remain where the clock ends"):
        execute(case)


def test_blocks_that_were_given_up_in_vain_are_written_later() -> None:
    """A reservation that would write where a store reads evicts, and leaves the space to be waited for."""
    pool = OffloadPool(3, 1)
    first = Sequence(0, None, 0, 2, 1, [1, 2])  # type: ignore[arg-type]
    first.tail_start = 2
    pool.take(2)
    pool.extend(first, 0, 2)
    store = Copy(first, [1, 2], is_load=False)
    pool.read_by(store, first, [0, 1])
    store.end_ns = 50
    pool.release(first, 2, cached=True)
    second = Sequence(1, None, 0, 2, 1, [3, 4])  # type: ignore[arg-type]
    second.tail_start = 2
    assert not pool.receive(second, pool.match([3, 4], 2), 2)
    assert (pool.room, pool.free, pool.read_free) == (3, 2, [None, store])
    assert (pool.take_ready(1), pool.overwritten) == (50, [0])
    pool.forget(store)
    assert pool.take_ready(1) == 0
    pool.give_back(2)
    assert pool.receive(second, pool.match([3, 4], 2), 2)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("num_host_blocks", 32, "native_host_offload.num_host_blocks: 32 is not 64, as for prefill"),
        ("kv_layout_id", "two", "kv_layout_id: 'two' is not 'one', as for prefill"),
        ("shared_h2d_bandwidth_gbps", 1.0, "shared_h2d_bandwidth_gbps: 1.0 is not 80.0, as for prefill"),
    ],
)
def test_who_shares_has_to_agree(field: str, value: object, text: str) -> None:
    decode = {"native_host_offload": {**SHARED, field: value}}
    with pytest.raises(InputError, match=f"spec.engine.decode.rank.*{text}"):
        execute(payload({"native_host_offload": SHARED}, decode))


@pytest.mark.parametrize(
    ("decode", "text"),
    [
        ({"native_host_offload": HOST}, "native_host_offload: a value is not supported on decode workers"),
        ({"native_host_offload": SHARED}, 'scope: "cluster_shared" is not supported where pools scale'),
    ],
)
def test_pools_that_scale_have_none(decode: dict[str, Any], text: str) -> None:
    asked = payload({}, decode)
    planner = {"provider": "planner", "config": {"load_adjustment_interval_seconds": 0.2}}
    asked["spec"]["adapters"] = {"scaling": planner}
    with pytest.raises(UnsupportedError, match=text):
        execute(asked)
