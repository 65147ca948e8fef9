"""Host memory that all ranks share: bandwidth, held blocks, and equality with the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aisimulate.core.errors import InputError, UnsupportedError
from aisimulate.engine.held_pool import HeldPool
from aisimulate.engine.offload_lanes import Copy
from aisimulate.engine.offload_state import HostSide
from aisimulate.engine.params import OffloadParams
from aisimulate.engine.sequence import Sequence
from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker
from aisimulate.replay.observe.hub import Observer

from .test_sglang_handoff import check_equals

if TYPE_CHECKING:
    from aisimulate.core.traffic import Session
    from aisimulate.engine.watch import WatchedWorker

RECORDED = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data/engine/shared_host_examples.jsonl").open()
]
TIER = {
    "scope": "cluster_shared",
    "kv_layout_id": "one",
    "num_host_blocks": 64,
    "d2h_bandwidth_gbps": 1.0,
    "h2d_bandwidth_gbps": 1.0,
    "shared_d2h_bandwidth_gbps": 1.0,
    "shared_h2d_bandwidth_gbps": 1.0,
}
RANK = {
    "num_gpu_blocks": 6,
    "block_size": 4,
    "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0},
    "kv_cache_bytes_per_token": 250_000,  # a block moves in 1 ms
}


def serve(requests: list[tuple[float, list[int]]], workers: int = 2, **tier: Any) -> dict[str, Any]:
    """Run requests, each its arrival and the ids of its blocks of 4 tokens and a token more; 2 tokens out."""
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": workers}},
        "engine": {"rank": RANK | {"native_host_offload": TIER | tier}},
        "record_per_request": True,
        "requests": [
            {
                "id": f"r{number}",
                "arrival_time_ms": arrival_ms,
                "input_tokens": 4 * len(ids) + 1,
                "output_tokens": 2,
                "input_token_ids": [*(token for token in ids for _ in range(4)), 9000 + number],
            }
            for number, (arrival_ms, ids) in enumerate(requests)
        ],
    }
    return execute({"spec": spec}, observers=[InvariantChecker(thorough=True)])


def admissions(report: dict[str, Any]) -> list[list[tuple[float, int]]]:
    """When each request was let in, and what it found."""
    return [
        [(entry["at_ms"], entry["reused_input_tokens"]) for entry in record["admission_history"]]
        for record in report["per_request"]
    ]


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_equals_the_reference(case: dict[str, Any], tmp_path: Path) -> None:
    check_equals(case, tmp_path)
    checked = execute(case["payload"], observers=[InvariantChecker(thorough=True)])
    assert checked["completed_requests"] == sum(
        row["terminal_status"] == "completed" for row in case["expect"]
    )


def test_a_worker_finds_what_another_has_stored() -> None:
    """Three blocks are stored from 10 to 13 ms, and loaded from 20 to 23 ms by the other worker."""
    report = serve([(0.0, [1, 2, 3]), (20.0, [1, 2, 3])])
    assert admissions(report)[1] == [(23.0, 12)]
    assert report["g2_domains"] == [{"capacity_blocks": 64, "resident_blocks": 3, "used_blocks": 3}]


def test_copies_of_two_ranks_share_the_bandwidth() -> None:
    """Six blocks in all leave two GPUs from 10 ms on: at half speed each, they are there at 16 ms."""
    first = [(0.0, [1, 2, 3]), (0.0, [4, 5, 6])]
    shared = admissions(serve([*first, (13.5, [4, 5, 6])]))
    assert shared[2] == [(19.0, 12)]
    alone = admissions(serve([*first, (13.5, [4, 5, 6])], shared_d2h_bandwidth_gbps=0))
    assert alone[2] == [(16.5, 12)]


@pytest.mark.parametrize("observers", [[], [InvariantChecker(thorough=True)]], ids=["alone", "watched"])
def test_copies_go_on_to_the_end_of_the_replay_whoever_looks(observers: list[InvariantChecker]) -> None:
    """The prompt's blocks leave the prefill worker from 10 to 13 ms; nothing happens there any more."""
    prefill = RANK | {"native_host_offload": TIER}
    decode = {name: RANK[name] for name in ("block_size", "timing_model")} | {"num_gpu_blocks": 64}
    spec = {
        "topology": {
            "kind": "disaggregated",
            "prefill": {"initial_workers": 1},
            "decode": {"initial_workers": 1},
        },
        "engine": {"prefill": {"rank": prefill}, "decode": {"rank": decode}},
        "requests": [{"id": "a", "arrival_time_ms": 0.0, "input_tokens": 13, "output_tokens": 60}],
    }
    report = execute({"spec": spec}, observers=observers)
    assert report["g2_domains"] == [{"capacity_blocks": 64, "resident_blocks": 3, "used_blocks": 3}]


def test_a_rank_without_a_pass_is_not_seen_to_compute() -> None:
    """A request for no output ends with the first pass, after which the other rank goes on alone."""
    seen: list[tuple[int, int]] = []

    class Watching(Observer):
        def started(self, worker: WatchedWorker) -> None:
            seen.extend((worker.start_ns // 10**6, work.rank) for work in worker.doing if work.prefills)

    request = {"arrival_time_ms": 0.0, "input_tokens": 13}
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"dp_size": 2, "rank": RANK | {"max_num_batched_tokens": 8, "native_host_offload": TIER}},
        "requests": [
            request | {"id": "a", "dp_rank": 0, "output_tokens": 0, "input_tokens": 5},
            request | {"id": "b", "dp_rank": 1, "output_tokens": 4},
        ],
    }
    execute({"spec": spec}, observers=[Watching()])
    assert seen == [(0, 0), (0, 1), (10, 1)]


def test_blocks_keep_their_place_until_they_are_copied() -> None:
    """The second prompt finds two free blocks of six; the four it needs are there when the store ends."""
    waits = admissions(serve([(0.0, [1, 2, 3, 4]), (12.0, [5, 6, 7])], workers=1, d2h_bandwidth_gbps=0.1))
    assert waits == [[(0.0, 0)], [(50.0, 0)]]


@pytest.mark.parametrize("name", [None, "", " "])
def test_who_shares_names_a_layout(name: str | None) -> None:
    with pytest.raises(InputError, match=r"native_host_offload.kv_layout_id: a name that is not blank"):
        serve([(0.0, [1])], kv_layout_id=name)


def test_groups_that_space_their_prefills_cannot_share() -> None:
    rank = RANK | {"native_host_offload": TIER, "prefill_schedule_interval": 2}
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"dp_size": 2, "rank": rank},
        "requests": [{"id": "a", "arrival_time_ms": 0.0, "input_tokens": 9, "output_tokens": 2}],
    }
    with pytest.raises(UnsupportedError, match="with dp_size 2 and prefill_schedule_interval 2"):
        execute({"spec": spec})


def of_blocks(number: int, ids: list[int], session: Session | None = None) -> Sequence:
    """A request of full blocks of one token each."""
    sequence = Sequence(number, session, 0, len(ids), 1, ids)  # type: ignore[arg-type]
    sequence.tail_start = len(ids)
    return sequence


def test_a_block_may_outlive_the_one_before_it() -> None:
    pool = HeldPool(3, 1)
    first, keys = of_blocks(0, [1, 2]), [1, 2]
    pool.take(2)
    pool.extend(first, 0, 2)
    store = Copy(first, [2], is_load=False)
    pool.read_by(store, first, [1])
    pool.release(first, 2, cached=True)
    assert (pool.room, pool.free, pool.match(keys, 2)[0]) == (2, 1, 2)
    pool.take(2)  # the free one, and the one that nobody reads
    assert pool.match(keys, 2)[0] == 0
    pool.give_back(2)
    again = of_blocks(1, [1, 2])
    pool.take(1)
    pool.extend(again, 0, 1)
    assert pool.match(keys, 2)[:2] == (2, 2)
    pool.forget(store)
    assert pool.match(keys, 2)[:2] == (2, 1)


def test_a_request_takes_up_its_old_place_among_those_set_aside() -> None:
    """As long as somebody who was before it is still there."""
    host = HostSide(OffloadParams(8, 1), None)  # type: ignore[arg-type]
    sequences = [of_blocks(number, [number]) for number in range(3)]
    for sequence in sequences:
        host.enter(sequence, 1)
        host.set_aside(sequence)
    first, second, third = sequences
    host.admitted(second, 0, 1)
    host.set_aside(second)
    for state in host.aside.values():
        state.asleep = False
    host.set_aside(first)
    assert host.next_aside() is second
    host.admitted(first, 0, 1)
    host.admitted(second, 0, 1)
    host.set_aside(second)
    assert host.next_aside() is third
