"""Waiting at the router (spec 03 section A6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aisimulate.core.traffic import Session, Turn
from aisimulate.engine.sequence import Origin, Sequence
from aisimulate.replay.execute import execute
from aisimulate.router.queue import RouterQueue

from .routed import payload

FIXED = {"timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0}}
RANK = {"max_num_batched_tokens": 1024} | FIXED


def sequence(tokens: int, **metadata: Any) -> Sequence:
    turn = Turn(tokens, 1, metadata=metadata or None)
    return Sequence(0, Origin(turn, Session("a", [turn], 0.0), 0, 0.0), 0, tokens, 1, None)


def order(policy: Any, *items: tuple[str, Sequence, int, int]) -> list[str]:
    queue: RouterQueue[str] = RouterQueue(policy)
    for name, request, now_ns, cached_tokens in items:
        queue.push(request, now_ns, cached_tokens, name)
    return [queue.pop() for _ in range(len(queue))]


S = 1_000_000_000


def test_first_come_first_served_but_for_priority() -> None:
    early, late, urgent, strict = (
        sequence(9),
        sequence(9),
        sequence(9, priority=3),
        sequence(9, strict_priority=1),
    )
    items = ("early", early, 1 * S, 0), ("late", late, 2 * S, 0), ("urgent", urgent, 3 * S, 0)
    assert order("fcfs", *items) == ["urgent", "early", "late"]
    assert order("fcfs", *items, ("strict", strict, 9 * S, 0)) == ["strict", "urgent", "early", "late"]
    # A jump of 3 is worth 3 s, and a priority below 0 nothing.
    assert order("fcfs", ("a", early, 0, 0), ("b", urgent, 4 * S, 0)) == ["a", "b"]
    assert order("fcfs", ("a", sequence(9, priority=-5), 0, 0), ("b", early, 1, 0)) == ["a", "b"]


def test_last_come_first_served() -> None:
    assert order("lcfs", ("a", sequence(9), 1, 0), ("b", sequence(9), 2, 0)) == ["b", "a"]


def test_shortest_uncached_prompt_first() -> None:
    long, short, cached = sequence(90), sequence(30), sequence(100)
    items = ("long", long, 1, 0), ("short", short, 2, 0), ("cached", cached, 3, 95)
    assert order("wspt", *items) == ["cached", "short", "long"]
    assert order("wspt", *items, ("urgent", sequence(90, priority=20), 4, 0))[0] == "urgent"


def test_equal_ones_keep_their_order() -> None:
    assert order("wspt", *((str(n), sequence(9), n, 0) for n in range(5))) == list("01234")


def burst(tmp_path: Path, threshold: float, **config: Any) -> list[dict[str, Any]]:
    """Five prompts of 640 tokens at once on one worker with a budget of 1,024 tokens."""
    ids = [list(range(10 * n, 10 * n + 10)) for n in range(5)]
    rows = [{"timestamp": 0, "input_length": 640, "output_length": 3, "hash_ids": part} for part in ids]
    asked = payload(rows, tmp_path, workers=1, rank=RANK, router_queue_threshold=threshold, **config)
    return [record["routing_history"][0] for record in execute(asked)["per_request"]]


@pytest.mark.parametrize(("threshold", "admitted"), [(0.5, 1), (1.0, 2), (2.0, 4), (4.0, 5)])
def test_a_busy_worker_gets_nothing(threshold: float, admitted: int, tmp_path: Path) -> None:
    """0.5 x 1024 < 640; at 2.0 the fourth comes in (1,920 is not above 2,048), the fifth does not."""
    routes = burst(tmp_path, threshold)
    assert [route["outcome"] for route in routes] == ["immediate"] * admitted + ["queued"] * (5 - admitted)
    waits = [route["queue_wait_ms"] for route in routes]
    assert waits == sorted(waits)
    assert all(route["released_at_ms"] == route["queue_wait_ms"] for route in routes[admitted:])


def test_who_waits_comes_in_at_first_tokens(tmp_path: Path) -> None:
    assert [route["queue_wait_ms"] for route in burst(tmp_path, 0.5)] == [0.0, 10.0, 25.0, 40.0, 55.0]


def test_a_backlog_keeps_its_order_even_when_a_worker_is_free(tmp_path: Path) -> None:
    routes = burst(tmp_path, 0.5, router_queue_policy="lcfs")
    assert [route["queue_wait_ms"] for route in routes] == [0.0, 10.0, 25.0, 40.0, 55.0]  # all came at once


def test_a_pair_queues_in_front_of_its_prefill_pool(tmp_path: Path) -> None:
    """Decode workers have no prefills, hence are never busy: their router lets everybody in."""
    rows = [
        {"timestamp": 0, "input_length": 16, "output_length": 3, "hash_ids": [number]} for number in range(4)
    ]
    asked = payload(rows, tmp_path, pools=(1, 2), block=16, rank=RANK, router_queue_threshold=0.0)
    records = sorted(execute(asked)["per_request"], key=lambda record: int(record["uuid"]))
    waits = [record["routing_history"][0]["queue_wait_ms"] for record in records]
    assert waits == sorted(set(waits))
    assert {record["decode_worker_idx"] for record in records} == {0, 1}
