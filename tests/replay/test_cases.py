"""Every recorded case of the reference: equal where supported, refused where not (spec 02 section 11)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from aisimulate._runtime import run_replay_json
from oracle.disagg import replay_disaggregated
from oracle.fleet import replay
from oracle.handoff_records import handoff_records, report_handoffs
from oracle.records import oracle_records, report_records
from oracle.stream import Stream

from .case_files import CASES, materialise, payload_of

EQUAL = [
    "c01-single",
    "c03-zero-output",
    "c03b-zero-output-e2e-sla",
    "c04-two-simultaneous",
    "c05-arrival-mid-pass",
    "c06-arrival-at-pass-end",
    "c07-prefix-reuse",
    "c08-trace-block-bigger",
    "c09-default-trace-block",
    "c15-concurrency-sessions",
    "c16-max-sim-time",
    "c18-sla",
    "c20-dp2",
    "c21-applied-compute",
    "c41-synth-constant",
    "c42-synth-poisson-seed42",
    "c43-synth-concurrency2",
    "c45-synth-shared-prefix",
    "c47-synth-shared-no-groups",
    "c50-percentiles",
    "c51-router-round_robin",
    "c53-two-same-time-order",
    "c54-preemption",
    "c55-chunked-prefill",
    "c57-max-sim-boundary",
    "c58-max-sim-zero",
    "c59-output-token-ids",
    "c71-two-workers-tie",
    "c72-rejected-session-continues",
    "c76-mooncake-aliases",
    "c77-interleaved-sessions-concurrency2",
    "c78-delta-concurrency",
]
# The binding's payload is not the recorded call; each has a test of its own below.
DIFFERENT = ["c40-synth-burst", "c44-synth-sessions", "c46-synth-shared-prefix-3groups"]
BAD_INPUT = {
    "c18b-sla-mixed": r"sla.*e2e_ms",
    "c21b-applied-compute-open": r"t0\.jsonl:1: .*first timestamp.*replay_concurrency",
}
# Graphs of requests; test_agentic_cases.py compares what only they report.
GRAPHS = [
    "c22-agentic-dag",
    "c23-agentic-two-plays",
    "c27-dynamo-agentic",
    "c73-agentic-reject-fails-play",
    "c74-agentic-zero-output",
]
DISAGGREGATED = [
    "c30-disagg-vllm",
    "c31-disagg-one-token",
    "c34-disagg-2p1d",
    "c35-disagg-sla-telemetry",
    "c79-disagg-max-sim",
    "c81-disagg-reject",
    "c85-disagg-transfer-missing-only",
    "c86-disagg-transfer-full",
    "c87-disagg-trtllm",
]
# Scripts drove these; test_scaling.py compares them.
SCALED = ["c60-scale-up", "c62-scale-down", "c63-cancel-starting", "c65-target-zero"]
NO_PAYLOAD = [
    "c24-agentic-lanes1",
    "c51-router-kv_router",
    "c52-kv-router-lag",
    "c83-weka-subagent",
    "c84-agentic-lanes2-queue",
]

# The reference estimates these from a sketch; ours are exact.
SKETCHED = {
    f"{statistic}_{metric}"
    for statistic in ("median", "p75", "p90", "p95", "p99")
    for metric in ("itl_ms", "output_token_throughput_per_user")
}
# Only the newest revisions of the reference have these keys.
NOT_OURS = {"power_w", "power_coverage", "kv_eviction_policy", "committed_prefill_tokens"}
# The reference leaves the session of a flat trace null; the binding names it.
NAMES = {"session_id", "turn_index"}


def run(payload: dict[str, Any]) -> dict[str, Any]:
    return json.loads(run_replay_json(json.dumps(payload)))


def close(want: object, got: object, tolerance: float) -> bool:
    if isinstance(want, str) or want is None or got is None:
        return want == got
    return math.isclose(want, got, rel_tol=tolerance, abs_tol=1e-6)


def by_outcome(record: dict[str, Any]) -> tuple[float, ...]:
    keys = ("arrival_time_ms", "input_length", "terminal_time_ms", "decode_worker_idx")
    return tuple(-1.0 if record[key] is None else record[key] for key in keys)


def reported(record: dict[str, Any]) -> dict[str, Any]:
    admissions = [[entry["at_ms"], entry["reused_input_tokens"]] for entry in record["admission_history"]]
    return {**record, "admissions": admissions}


def test_every_case_is_in_one_list() -> None:
    lists = EQUAL + DISAGGREGATED + DIFFERENT + [*BAD_INPUT] + GRAPHS
    lists += SCALED + NO_PAYLOAD
    assert sorted(lists) == sorted(CASES)
    assert [name for name, case in CASES.items() if "payload" not in case] == NO_PAYLOAD


@pytest.mark.parametrize("name", EQUAL + GRAPHS + DISAGGREGATED)
def test_summary_equals_the_reference(name: str, tmp_path: Path) -> None:
    report = run(payload_of(name, tmp_path))

    wanted = {key: value for key, value in CASES[name]["summary"].items() if key not in NOT_OURS}
    wrong = {
        key: (value, report.get(key))
        for key, value in wanted.items()
        if not close(value, report.get(key), 2e-3 if key in SKETCHED else 1e-9)
    }
    assert wrong == {}


@pytest.mark.parametrize("name", EQUAL + GRAPHS + DISAGGREGATED)
def test_records_equal_the_reference(name: str, tmp_path: Path) -> None:
    records = sorted(map(reported, run(payload_of(name, tmp_path)).get("per_request", [])), key=by_outcome)
    wanted = sorted(CASES[name]["per_request"], key=by_outcome)

    assert len(records) == len(wanted)
    for record, want in zip(records, wanted, strict=True):
        admissions = want["admissions"]
        assert len(record["admissions"]) == len(admissions)
        for got, (at_ms, reused) in zip(record["admissions"], admissions, strict=True):
            assert close(at_ms, got[0], 1e-9)
            assert got[1] == reused
        plain = {key: value for key, value in want.items() if key not in NAMES and key != "admissions"}
        assert {key: value for key, value in plain.items() if not close(value, record[key], 1e-9)} == {}
        if want["session_id"] is not None:
            assert (record["session_id"], record["turn_index"]) == (want["session_id"], want["turn_index"])


@pytest.mark.parametrize("name", EQUAL + DIFFERENT)
def test_records_equal_the_oracle(name: str, tmp_path: Path) -> None:
    payload = payload_of(name, tmp_path)

    assert report_records(run(payload)) == oracle_records(replay(payload))


@pytest.mark.parametrize("name", DISAGGREGATED)
def test_handoffs_equal_the_oracle(name: str, tmp_path: Path) -> None:
    payload = payload_of(name, tmp_path)

    assert report_handoffs(run(payload)) == handoff_records(replay_disaggregated(payload))


def test_ids_count_from_one(tmp_path: Path) -> None:
    records = run(payload_of("c77-interleaved-sessions-concurrency2", tmp_path))["per_request"]
    dispatched = sorted(records, key=lambda record: (record["arrival_time_ms"], int(record["uuid"])))
    assert [record["uuid"] for record in dispatched] == [str(n) for n in range(1, len(records) + 1)]


def test_no_cap_means_a_burst(tmp_path: Path) -> None:
    report = run(payload_of("c40-synth-burst", tmp_path))

    assert [record["arrival_time_ms"] for record in report["per_request"]] == [0.0, 0.0, 0.0]
    assert report["completed_requests"] == 3


def test_synthetic_sessions_accumulate_their_history(tmp_path: Path) -> None:
    report = run(payload_of("c44-synth-sessions", tmp_path))

    inputs = [(r["session_id"], r["turn_index"], r["input_length"]) for r in report["per_request"]]
    assert inputs == [
        (session, turn, 8 + 12 * turn) for session in ("session_0", "session_1") for turn in range(3)
    ]
    # Block 4: of 12 and 24 tokens the last one was never computed, so its block is not resident.
    assert [record["reused_input_tokens"] for record in report["per_request"]] == [0, 8, 20] * 2


def test_prefix_groups_are_drawn_with_seed_0(tmp_path: Path) -> None:
    report = run(payload_of("c46-synth-shared-prefix-3groups", tmp_path))

    stream = Stream(0)
    draws = [stream.below(3) for _ in range(8)]
    assert draws == [2, 2, 1, 2, 2, 0, 2, 1]
    first_seen = [group not in draws[:index] for index, group in enumerate(draws)]
    reused = [record["reused_input_tokens"] for record in report["per_request"]]
    assert reused == [0 if first else 8 for first in first_seen]


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=BAD_INPUT[name]):
        run(payload_of(name, tmp_path))


def test_a_prefix_finds_its_worker_again(tmp_path: Path) -> None:
    """c51 with the router: every request finds 3 of its 4 blocks (the reference's first choice is random)."""
    payload = payload_of("c51-router-round_robin", tmp_path)
    payload["spec"]["adapters"]["placement"] = {"provider": "kv_router", "config": {}}
    routes = [record["routing_history"][0] for record in run(payload)["per_request"]]
    assert [route["reported_overlap_tokens"] for route in routes] == [0, 12, 12, 12]
    assert [route["overlap_regret_blocks"] for route in routes] == [0, 0, 0, 0]


def _dynamo(request_id: str, received_ms: int, hashes: list[int]) -> dict[str, Any]:
    replay = {"trace_block_size": 4, "input_length": 4 * len(hashes), "input_sequence_hashes": hashes}
    request = {
        "request_id": request_id,
        "output_tokens": 2,
        "request_received_ms": received_ms,
        "replay": replay,
    }
    schema = "dynamo.request.trace.v1"
    return {
        "schema": schema,
        "event_type": "request_end",
        "event_time_unix_ms": received_ms,
        "request": request,
    }


@pytest.mark.parametrize(("cap", "arrivals"), [(None, [0.0, 30.0]), (1, [0.0, 15.0])])
def test_a_dynamo_trace_is_replayed_with_its_own_block_size(
    cap: int | None, arrivals: list[float], tmp_path: Path
) -> None:
    payload = materialise(
        {
            **CASES["c01-single"]["payload"],
            "traffic": {"source_type": "trace", "trace_paths": ["<trace0>", "<trace1>"]},
        },
        [[_dynamo("b", 130, [11, 12])], [_dynamo("a", 100, [11])]],
        tmp_path,
    )
    payload["traffic"] |= {"trace_format": "dynamo", "replay_concurrency": cap}
    report = run(payload)

    # As the reference's binding replays them.
    assert report["duration_ms"] == arrivals[1] + 15.0
    records = [
        (r["arrival_time_ms"], r["input_length"], r["reused_input_tokens"]) for r in report["per_request"]
    ]
    assert records == [(arrivals[0], 4, 0), (arrivals[1], 8, 4)]


def test_deltas_add_up_with_the_outputs_in_between(tmp_path: Path) -> None:
    rows = [
        {"session_id": "a", "timestamp": 0, "input_length": 8, "output_length": 4, "hash_ids": [1, 2]},
        {"session_id": "a", "timestamp": 50, "input_length": 4, "output_length": 2, "hash_ids": [3]},
        {"session_id": "a", "delay": 20, "input_length": 4, "output_length": 2, "hash_ids": [4]},
    ]
    payload = payload_of("c78-delta-concurrency", tmp_path)
    report = run(
        {
            **payload,
            "traffic": materialise(
                {
                    "source_type": "trace",
                    "trace_path": "<trace0>",
                    "trace_format": "mooncake-delta",
                    "trace_block_size": 4,
                },
                [rows],
                tmp_path,
            ),
        }
    )

    records = [
        (r["arrival_time_ms"], r["input_length"], r["reused_input_tokens"]) for r in report["per_request"]
    ]
    assert records == [(0.0, 8, 0), (75.0, 16, 8), (110.0, 22, 16)]
