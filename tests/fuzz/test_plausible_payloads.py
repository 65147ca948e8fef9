"""Payloads of settings that are each legal somewhere: replayed with their invariants checked, or one line."""

from __future__ import annotations

import copy

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aisimulate.cli.main import main
from tests.fuzz.test_fuzzed_configs import PAYLOADS, drawn_place, one_printable_line

WORDS = (
    ("vllm", "sglang", "trtllm"),
    ("concurrency", "constant_rate", "poisson"),
    ("synthetic", "synthetic-session"),
    ("throughput", "latency", "load", "sla"),
    ("constant", "kalman", "pool", "ridge", "smoothing"),
    ("kv_router", "round_robin"),
    ("aggregated", "prefill", "decode"),
)
ADDED = {
    "spec": (
        ("max_sim_time_ms", 100.0),
        ("max_in_flight", 2),
        ("frontend", {"receive_interval": 3}),
        ("frontend", {"stream_interval": 3, "ttft_offset_ms": 2.5}),
        ("sla", {"e2e_ms": 50.0}),
    ),
    "engine": (("dp_size", 2), ("tensor_parallel_size", 2)),
    "rank": (
        ("aic_nextn", 2),
        ("preemption_mode", "fifo"),
        ("enable_prefix_caching", False),
        ("max_num_seqs", 2),
        ("max_num_batched_tokens", 32),
        ("max_model_len", 70),
        ("num_gpu_blocks", 6),
        ("speedup_ratio", 2.0),
        ("scheduling_look_ahead", 1),
        ("timing_mode", "fused"),
        ("prefill_schedule_interval", 3),
        ("g3_offload", {"scope": "worker_local", "num_g3_blocks": 5}),
    ),
    "traffic": (
        ("turns_per_session", 3),
        ("shared_prefix_ratio", 0.5),
        ("num_prefix_groups", 2),
        ("inter_turn_delay_ms", 5.0),
        ("osl", 1),
    ),
    "config": (
        ("router_queue_threshold", 0.1),
        ("use_kv_events", False),
        ("kv_event_lag_ms", 5.0),
        ("planner_mode", "direct"),
        ("min_endpoint", 0),
        ("max_gpu_budget", -1),
    ),
}


def added(document, data):
    """A copy with one to three settings added or exchanged for others of their kind."""
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3), "changes")):
        parent, name = drawn_place(document, data)
        value = parent[name]
        if isinstance(value, dict):
            choices = ADDED.get("engine" if name in ("prefill", "decode") else name, ())
            value.update([data.draw(st.sampled_from(choices), "added")] if choices else [])
        elif isinstance(value, bool):
            parent[name] = not value
        elif isinstance(value, int | float):
            parent[name] = type(value)(
                data.draw(st.sampled_from([0, 1, 2, 7, value * 2, value / 2]), "value")
            )
        elif isinstance(value, str):
            alike = next((words for words in WORDS if value in words), (value,))
            parent[name] = data.draw(st.sampled_from(alike), "word")
    return document


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_plausible_payload_keeps_the_invariants_or_is_one_line(tmp_path_factory, capsys, data):
    path = tmp_path_factory.getbasetemp() / "plausible.yaml"
    payload = added(PAYLOADS[data.draw(st.sampled_from(sorted(PAYLOADS)), "payload")], data)
    path.write_text(yaml.safe_dump(payload))
    code = main(["simulate", "--payload", str(path), "--check"])
    captured = capsys.readouterr()
    assert code in (0, 2), captured.err
    if code:
        one_printable_line(captured.err.rstrip("\n"))
