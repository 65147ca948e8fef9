"""Memory behind the GPU together with what else a replay may have: right, or refused in one line."""

from __future__ import annotations

from typing import Any

import pytest

from aisimulate.core.errors import ReplayError
from aisimulate.replay.execute import execute

FIXED = {"timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 2.0}}
HOST = {"kv_cache_bytes_per_token": 1000, "native_host_offload": {"num_host_blocks": 50}, **FIXED}
SESSIONS = {
    "source_type": "synthetic-session",
    "isl": 300,
    "osl": 20,
    "request_count": 12,
    "turns_per_session": 3,
    "concurrency": 4,
}
PLANNER = {"provider": "planner", "config": {"load_adjustment_interval_seconds": 0.2}}


def aggregated(workers: int, **disk: Any) -> dict[str, Any]:
    tier = {"scope": "cluster_shared", "num_g3_blocks": 100, **disk}
    return {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": workers}},
        "engine": {"rank": {"num_gpu_blocks": 20, **HOST, "g3_offload": tier}},
    }


@pytest.mark.parametrize("bandwidth", ["read_bandwidth_gbps", "shared_write_bandwidth_gbps"])
def test_a_disk_that_never_answers_is_an_error(bandwidth: str) -> None:
    asked = {"spec": aggregated(3, **{bandwidth: 1e-300}), "traffic": SESSIONS}
    with pytest.raises(ReplayError, match="requests remain at"):
        execute(asked)


def test_a_planner_counts_prefill_workers_that_wait_for_copies() -> None:
    pool = {"initial_workers": 1}
    rank = {"num_gpu_blocks": 40, "block_size": 16, **FIXED}
    spec = {
        "topology": {"kind": "disaggregated", "prefill": pool, "decode": pool, "handoff_latency_ms": 1.0},
        "engine": {"prefill": {"rank": rank | HOST}, "decode": {"rank": rank}},
        "adapters": {"scaling": PLANNER},
    }
    report = execute({"spec": spec, "traffic": SESSIONS})
    assert report["completed_requests"] + report["rejected_requests"] == 36
