"""Workers that vanish with their requests, which start again elsewhere."""

from __future__ import annotations

import pytest

from aisimulate.core.errors import UnsupportedError
from aisimulate.replay.execute import execute

RANK = {
    "num_gpu_blocks": 100,
    "block_size": 8,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 64,
    "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0},
}


def served(abrupt: bool, requests: list, rank: dict | None = None, dp: int = 1, **spec: object) -> dict:
    """Of two workers one goes at 15 ms and comes back at 30 ms."""
    decisions = [{"target_decode": 1, "abrupt": abrupt}, {"target_decode": 2}]
    script = {"first_tick_ms": 15.0, "step_ms": 15.0, "decisions": decisions}
    authored = [
        {"id": str(number), "arrival_time_ms": at_ms, "input_tokens": 8, "output_tokens": osl}
        for number, (at_ms, osl) in enumerate(requests)
    ]
    whole = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 2}},
        "engine": {"dp_size": dp, "rank": RANK | (rank or {})},
        "adapters": {"scaling": {"provider": "scripted", "config": script}},
        "requests": authored,
    }
    return execute({"spec": whole | spec})


def test_what_a_lost_worker_serves_starts_again_on_another() -> None:
    """Requests 0 and 1 begin at 0; the worker of 1 is lost at 15 ms, in the middle of its tokens."""
    report = served(True, [(0.0, 30), (0.0, 30)])
    first, second = report["per_request"]
    assert report["completed_requests"] == 2
    # The other worker has begun a pass at 15 ms; in that from 16 ms on it prefills, and decodes besides.
    assert (second["arrival_time_ms"], second["first_admit_ms"], second["ttft_ms"]) == (0.0, 16.0, 27.0)
    assert second["last_token_ms"] == 27.0 + 29.0
    assert first["last_token_ms"] == 10.0 + 29.0 + 10.0
    drained = served(False, [(0.0, 30), (0.0, 30)])
    assert [record["last_token_ms"] for record in drained["per_request"]] == [39.0, 39.0]


@pytest.mark.parametrize("backend", ["vllm", "trtllm", "sglang"])
@pytest.mark.parametrize("dp", [1, 2])
def test_all_requests_are_served_in_the_end(backend: str, dp: int) -> None:
    rank = {"backend": backend} | ({"sglang": {}} if backend == "sglang" else {})
    requests = [(2.0 * number, 5 + number % 7) for number in range(40)]
    report = served(True, requests, rank, dp)
    assert report["completed_requests"] == 40
    assert report["total_output_tokens"] == sum(osl for _, osl in requests)
    kept = served(False, requests, rank, dp)
    assert report["mean_e2e_latency_ms"] > kept["mean_e2e_latency_ms"]
    assert served(True, requests, rank, dp)["per_request"] == report["per_request"]


def test_a_closed_loop_goes_on() -> None:
    report = served(True, [(0.0, 12)] * 20, max_in_flight=4)
    assert report["completed_requests"] == 20


def test_beside_a_router_it_is_refused() -> None:
    adapters = {
        "placement": {"provider": "kv_router"},
        "scaling": {
            "provider": "scripted",
            "config": {
                "first_tick_ms": 5.0,
                "step_ms": 5.0,
                "decisions": [{"target_decode": 1, "abrupt": True}],
            },
        },
    }
    with pytest.raises(
        UnsupportedError, match=r"decisions\[0\]\.abrupt: true is not supported yet with placement"
    ):
        served(True, [(0.0, 2)], adapters=adapters)
