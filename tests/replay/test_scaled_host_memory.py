"""Pools that scale while requests wait for copies from host memory."""

import json

from aisimulate.replay.execute import execute


def test_a_worker_goes_on_until_those_who_wait_for_a_copy_have_ended(tmp_path):
    """The last request is on the worker that has to go: its prompt comes back from the host until 500 ms."""
    ids = [[1], [10, 11, 12, 13], [2], [20, 21, 22, 23, 24, 25], [3], [10, 11, 12, 13]]
    path = tmp_path / "trace.jsonl"
    rows = [
        {
            "timestamp": 100 * (number // 2),
            "input_length": 4 * len(row),
            "output_length": 1,
            "hash_ids": row,
        }
        for number, row in enumerate(ids)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rank = {
        "backend": "vllm",
        "block_size": 4,
        "num_gpu_blocks": 7,
        "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0},
        "kv_cache_bytes_per_token": 250_000,
        "native_host_offload": {"num_host_blocks": 20, "h2d_bandwidth_gbps": 0.01},
    }
    script = {"first_tick_ms": 250.0, "step_ms": 100.0, "decisions": [{"target_decode": 1}]}
    report = execute(
        {
            "spec": {
                "topology": {"kind": "aggregated", "workers": {"initial_workers": 2}},
                "engine": {"rank": rank},
                "adapters": {"scaling": {"provider": "scripted", "config": script}},
                "record_per_request": True,
            },
            "traffic": {"source_type": "trace", "trace_paths": [str(path)], "trace_block_size": 4},
        }
    )
    last = report["per_request"][-1]
    assert (last["decode_worker_idx"], last["terminal_time_ms"]) == (1, 510.0)
    assert report["completed_requests"] == len(ids)
