"""A disk behind host memory (G3): worked examples, fair shares, and what a router can ask."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from aisimulate.config.payload import parse_payload
from aisimulate.core.errors import InvariantError
from aisimulate.engine.disk_tier import DiskTier
from aisimulate.engine.fair_service import FairService, Transfer, exact_gbps
from aisimulate.engine.host_tier import HostTier
from aisimulate.engine.offload_scheduler import Offloading
from aisimulate.replay.build import build_replay
from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker

BLOCK = 4  # tokens, 1 MB


def payload(requests: list[tuple[float, list[int], int]], workers: int = 1, **rank: Any) -> dict[str, Any]:
    """Requests are an arrival, prompt tokens and outputs; passes last 10 + 1 ms, copies to the GPU none."""
    settings = {
        "num_gpu_blocks": 4,
        "block_size": BLOCK,
        "max_num_seqs": 16,
        "max_num_batched_tokens": 64,
        "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0},
        "kv_cache_bytes_per_token": 250_000,
        "native_host_offload": {"num_host_blocks": 3, "d2h_bandwidth_gbps": 0, "h2d_bandwidth_gbps": 0},
        "g3_offload": {
            "scope": "worker_local",
            "num_g3_blocks": 64,
            "latency_to_first_byte_ms": 0.5,
            "read_bandwidth_gbps": 1.0,
            "write_bandwidth_gbps": 0.5,
        },
    }
    return {
        "spec": {
            "topology": {"kind": "aggregated", "workers": {"initial_workers": workers}},
            "engine": {"rank": settings | rank},
            "record_per_request": True,
            "requests": [
                {
                    "id": f"r{number}",
                    "arrival_time_ms": arrival_ms,
                    "input_tokens": len(tokens),
                    "input_token_ids": tokens,
                    "output_tokens": outputs,
                }
                for number, (arrival_ms, tokens, outputs) in enumerate(requests)
            ],
        }
    }


def prompt(start: int, length: int) -> list[int]:
    return list(range(start, start + length))


# Two prompts of three full blocks by turns: GPU and host have room for one of them.
BY_TURNS = [(100.0 * n, prompt(1000 * (n % 2), 13), 1) for n in range(3)]
TIERS = ("g1", "host", "disk")


def reuse(record: dict[str, Any]) -> tuple[int, ...]:
    return tuple(record[f"first_admission_{tier}_reused_input_tokens"] for tier in TIERS)


def admissions(record: dict[str, Any]) -> list[tuple[float, int]]:
    """When a request was admitted, and what it reused."""
    return [(entry["at_ms"], entry["reused_input_tokens"]) for entry in record["admission_history"]]


def test_a_prompt_comes_back_from_the_disk():
    """3 MB are read in 0.5 + 3 ms."""
    report = execute(payload(BY_TURNS))
    third = report["per_request"][2]
    assert third["admission_history"][0]["at_ms"] == 203.5
    assert third["first_token_ms"] == 213.5
    assert reuse(third) == (0, 12, 12)
    assert report["first_admission_reused_tokens_by_tier"] == {"device": 0, "host": 0, "disk": 12}


def test_the_report_tells_what_the_disk_did():
    """What the host takes up is written at once: 3 MB in 0.5 + 6 ms, twice."""
    disk = execute(payload(BY_TURNS))["g3_offload"]
    assert disk["write"] == {
        "submitted_jobs": 2,
        "completed_jobs": 2,
        "completed_bytes": 6_000_000,
        "transfer_ms": 13.0,
    }
    assert disk["read"]["completed_bytes"] == 3_000_000
    assert (disk["resident_blocks"], disk["evictions"], disk["lookup_hits"]) == (6, 0, 3)


def test_what_has_no_room_is_not_written():
    small = payload(BY_TURNS)["spec"]["engine"]["rank"]["g3_offload"] | {"num_g3_blocks": 2}
    report = execute(payload(BY_TURNS, g3_offload=small))
    assert report["g3_offload"]["write"]["completed_bytes"] == 4_000_000
    assert report["g3_offload"]["resident_blocks"] + report["g3_offload"]["pending_blocks"] == 2


@pytest.mark.parametrize(("scope", "found"), [("worker_local", (0, 0, 0)), ("cluster_shared", (0, 12, 12))])
def test_workers_find_on_a_common_disk_what_others_wrote(scope, found):
    requests = [(0.0, prompt(0, 13), 1), (100.0, prompt(500, 13), 1), (200.0, prompt(0, 13), 1)]
    disk = {"scope": scope, "num_g3_blocks": 64}
    report = execute(payload(requests, workers=3, g3_offload=disk))
    assert reuse(report["per_request"][2]) == found
    assert report["g3_offload"]["cross_worker_read_blocks"] == found[2] // BLOCK


def test_a_request_whose_prompt_outgrows_the_host_gives_up():
    """Blocks of the prompt take each other's place in the host for ever; the reference gives up likewise."""
    rows = [
        (2872.55, 1100, 12, 3),
        (3035.964, 600, 31, 1),
        (3084.905, 300, 24, 6),
        (3111.521, 1100, 31, 3),
        (3285.675, 300, 31, 2),
        (3325.659, 1000, 5, 6),
        (3341.429, 200, 16, 2),
        (3376.429, 1100, 31, 3),
    ]
    requests = [(at, prompt(first, length), outputs) for at, first, length, outputs in rows]
    disk = {
        "scope": "cluster_shared",
        "num_g3_blocks": 64,
        "latency_to_first_byte_ms": 0.25,
        "read_bandwidth_gbps": 0.5,
        "write_bandwidth_gbps": 0.5,
        "shared_read_bandwidth_gbps": 2.0,
        "shared_write_bandwidth_gbps": 0.75,
    }
    host = {"num_host_blocks": 4, "d2h_bandwidth_gbps": 1.0, "h2d_bandwidth_gbps": 0.0}
    report = execute(
        payload(
            requests,
            num_gpu_blocks=16,
            max_num_seqs=2,
            max_num_batched_tokens=32,
            timing_model={"type": "fixed", "prefill_ms": 0.5, "decode_ms": 0.25},
            native_host_offload=host,
            g3_offload=disk,
        )
    )
    assert report["completed_requests"] == len(rows)
    assert report["g3_offload"]["bypassed_restores"] == 1
    assert report["g3_offload"]["read"]["completed_jobs"] >= 1024


def test_what_the_gpu_loses_while_its_owner_waits_comes_from_the_disk():
    """Recorded from the reference: the first request waits for room while a run of passes takes its block."""
    requests = [(0.0, prompt(100, 4), 20), (1.5, [7], 20), (5.5, prompt(200, 6), 13)]
    rank = {
        "num_gpu_blocks": 6,
        "max_num_batched_tokens": 16,
        "enable_chunked_prefill": False,
        "preemption_mode": "fifo",
        "timing_model": {"type": "fixed", "prefill_ms": 4.0, "decode_ms": 4.0},
        "native_host_offload": {
            "num_host_blocks": 1,
            "d2h_bandwidth_gbps": 0.0,
            "h2d_bandwidth_gbps": 0.25,
            "latency_to_first_byte_ms": 3.0,
        },
        "g3_offload": {
            "scope": "worker_local",
            "num_g3_blocks": 2,
            "latency_to_first_byte_ms": 0.0,
            "read_bandwidth_gbps": 1.0,
            "write_bandwidth_gbps": 0.0,
        },
    }
    records = execute(payload(requests, **rank))["per_request"]

    assert [admissions(row) for row in records] == [
        [(0.0, 0), (80.0, 4)],
        [(4.0, 0), (72.0, 4), (140.0, 0)],
        [(12.0, 0)],
    ]
    assert [row["last_token_ms"] for row in records] == [140.0, 176.0, 72.0]


def test_a_router_can_ask_for_lower_hits():
    """Of the first prompt the disk has all; the second is on the GPU; of the last only the start is known."""
    asked = [prompt(0, 13), prompt(1000, 13), [*prompt(0, 8), 7, 7, 7, 7, 7], prompt(5000, 9)]
    load = payload([*BY_TURNS[:2], *((300.0, tokens, 1) for tokens in asked)])
    replay = build_replay(parse_payload(load | {"spec": load["spec"] | {"max_sim_time_ms": 250.0}}))
    replay.fleet.run()
    [rank] = replay.workers[0].ranks  # type: ignore[attr-defined]
    assert isinstance(rank, Offloading)
    hits = [rank.lower_tier_hits(sequence) for sequence in replay.driver.pop_ready(300_000_000)]
    assert hits == [(0, 3), (0, 0), (0, 2), (0, 0)]


@pytest.mark.parametrize("tier", [HostTier, DiskTier])
def test_the_invariant_checker_looks_into_the_books(tier, monkeypatch):
    """I13 is broken once what has arrived is not taken note of."""
    monkeypatch.setattr(tier, "_file", lambda tier, keys: None)
    if tier is HostTier:
        monkeypatch.setattr(HostTier, "free_blocks", 1)
    with pytest.raises(InvariantError, match="I13"):
        execute(payload(BY_TURNS), observers=[InvariantChecker(thorough=True)])


# Fair shares ----------------------------------------------------------------------------------------------


def ends(*jobs: tuple[int, bool, int, int, int], gbps: float = 1.0, shared: float = 0.0) -> list[int]:
    """When transfers end, each given as client, whether it reads, bytes, submission and latency in ns."""
    service: FairService[int] = FairService(exact_gbps(shared), exact_gbps(shared))
    found: dict[int, int] = {}
    for number, (client, is_read, size, at_ns, latency_ns) in enumerate(jobs):
        found |= {transfer.what: transfer.end_ns for transfer in service.advance(at_ns)}
        service.submit(Transfer(number, client, is_read, size, exact_gbps(gbps)), at_ns, latency_ns)
    found |= {transfer.what: transfer.end_ns for transfer in service.advance(1 << 60)}
    return [found[number] for number in range(len(jobs))]


def test_a_client_shares_its_bandwidth_among_its_transfers():
    assert ends((0, True, 1000, 0, 0), (0, True, 500, 0, 0)) == [1500, 1000]


def test_directions_and_clients_do_not_share():
    assert ends((0, True, 1000, 0, 0), (0, False, 1000, 0, 0), (1, True, 1000, 0, 0)) == [1000, 1000, 1000]


def test_all_clients_share_what_the_medium_has():
    """Four at 0.5 of 2; the share that one leaves when it has ended goes to the others."""
    jobs = [(client, True, 1000 if client else 500, 0, 0) for client in range(4)]
    assert ends(*jobs, shared=2.0) == [1000, 1750, 1750, 1750]


def test_who_waits_for_the_first_byte_uses_no_bandwidth():
    assert ends((0, True, 1000, 0, 0), (0, True, 100, 0, 800)) == [1100, 1000]


def test_instants_are_rounded_but_what_is_left_is_not():
    assert ends((0, True, 100, 0, 0), (0, True, 100, 0, 0), (0, True, 101, 0, 0), gbps=0.3) == [
        1000,
        1000,
        1003,
    ]
    assert exact_gbps(0.3) == Fraction(3, 10)


def test_no_limit_takes_no_time():
    assert ends((0, True, 1000, 5, 0), (0, False, 1000, 5, 7), gbps=0.0) == [5, 12]


@pytest.mark.parametrize("place", [0, 1], ids=["first", "last"])
@pytest.mark.parametrize(
    ("other", "outputs", "status", "end_ms"),
    [
        (prompt(0, 8), 2, "completed", 48.0),
        (prompt(500, 8), 40, "rejected", 49.0),
        (prompt(500, 3), 1, "rejected", 10.0),
    ],
    ids=["its beginning", "nothing of it", "no block"],
)
def test_a_prompt_over_the_budget_waits_as_long_as_others_run_or_copy(place, other, outputs, status, end_ms):
    """The other one computes until 10 ms; 2 MB are in its host at 30, on the disk at 34.5, and here at 37."""
    tiers = payload([])["spec"]["engine"]["rank"]
    requests = [(0.0, other, outputs)]
    requests.insert(place, (0.0, prompt(0, 12), 2))
    report = execute(
        payload(
            requests,
            workers=2,
            num_gpu_blocks=16,
            max_num_batched_tokens=8,
            enable_chunked_prefill=False,
            native_host_offload=tiers["native_host_offload"] | {"d2h_bandwidth_gbps": 0.1},
            g3_offload=tiers["g3_offload"] | {"scope": "cluster_shared"},
        )
    )
    record = report["per_request"][place]
    assert (record["terminal_status"], record["terminal_time_ms"]) == (status, end_ms)


def test_who_was_looked_at_before_another_gave_up_is_looked_at_again():
    """The last worker loads in no time, then gives up in a pass of no length: so may the one before it."""
    tiers = payload([])["spec"]["engine"]["rank"]
    requests = [(0.0, prompt(0, 4), 3), (16.0, prompt(500, 12), 2), (16.0, prompt(0, 16), 2)]
    report = execute(
        payload(
            requests,
            workers=3,
            num_gpu_blocks=512,
            max_num_batched_tokens=4,
            enable_chunked_prefill=False,
            g3_offload=tiers["g3_offload"] | {"scope": "cluster_shared"},
        )
    )
    assert [row["terminal_status"] for row in report["per_request"]] == ["completed", "rejected", "rejected"]
    assert report["duration_ms"] < 100.0
