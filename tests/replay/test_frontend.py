"""What clients see through a front end, against the step-by-step oracle, which knows when every token was."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.core.errors import AISimulateError
from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker
from engine.test_differential import budget
from oracle.fleet import replay
from oracle.records import oracle_records, report_records
from oracle.sglang_strategies import sglang_scenarios
from oracle.strategies import (
    Scenario,
    long_prompt_scenarios,
    outgrowing_scenarios,
    payload_spec,
    scenarios,
    turnstile_scenarios,
)
from oracle.summary import summary
from tests.fuzz.test_fuzzed_configs import PAYLOADS


def without_drafts(scenario: Scenario, look_ahead: int) -> dict:
    engine = scenario.payload["spec"]["engine"]
    rank = {key: value for key, value in engine["rank"].items() if not key.startswith("aic_")}
    if look_ahead:
        rank.pop("prefill_decode_interval", None)
        rank["scheduling_look_ahead"] = look_ahead
    return scenario.payload | {"spec": scenario.payload["spec"] | {"engine": engine | {"rank": rank}}}


def check(scenario: Scenario, interval: int, look_ahead: int, **more: Any) -> None:
    """The report has the figures of chunks, the engine's part of the records stays as it is."""
    with tempfile.TemporaryDirectory() as folder:
        payload = Scenario(without_drafts(scenario, look_ahead), scenario.rows).materialise(Path(folder))
        outcome, plain = replay(payload), execute(payload)
        spec = payload["spec"] | {"frontend": {"stream_interval": interval}} | more
        report = execute(payload | {"spec": spec})
    seen = {}
    for request in outcome.requests:
        chunks = range(min(interval, request.emitted), request.emitted, interval)
        seen[request.session_id, request.turn_index] = [
            request.token_ns[last - 1] for last in (*chunks, request.emitted) if last
        ]
    for record, engine_record in zip(
        report.get("per_request", []), plain.get("per_request", []), strict=True
    ):
        chunks_ns = seen[record["session_id"], record["turn_index"]]
        first_ms, last_ms = record.pop("client_first_token_ms"), record.pop("client_last_token_ms")
        assert (first_ms, last_ms) == (
            (pytest.approx(chunks_ns[0] / 1e6), pytest.approx(chunks_ns[-1] / 1e6))
            if chunks_ns and record["terminal_status"] == "completed"
            else (None, None)
        )
        record.pop("client_ttft_ms")
        record.pop("client_e2e_latency_ms")
        assert record == engine_record
    for request in outcome.requests:
        chunks_ns = seen[request.session_id, request.turn_index]
        if chunks_ns and request.status == "completed":
            # For the figures: as if all tokens of a chunk had come with its last.
            second_ns = chunks_ns[min(1, len(chunks_ns) - 1)]
            request.token_ns[0] = chunks_ns[0]
            request.token_ns[1:2] = [second_ns] * (request.emitted > 1)
    workers, dp_size = spec["topology"]["workers"]["initial_workers"], spec["engine"]["dp_size"]
    figures = summary(outcome, workers, dp_size)
    named = [key for key in figures if key.endswith(("_ttft_ms", "_ttst_ms", "_tpot_ms"))]
    assert {key: report[key] for key in named} == pytest.approx(
        {key: figures[key] for key in named}, rel=1e-9, abs=1e-6
    )


@budget(200)
@given(
    st.one_of(scenarios(), outgrowing_scenarios(), long_prompt_scenarios(), sglang_scenarios()),
    st.sampled_from([2, 3, 4, 7, 17]),
    st.sampled_from([0, 0, 1]),
)
def test_chunks_of_tokens(scenario: Scenario, interval: int, look_ahead: int) -> None:
    check(scenario, interval, look_ahead)


STAYING = {"first_tick_ms": 5.0, "step_ms": 5.0, "decisions": [{}]}


@budget(100)
@given(
    st.one_of(scenarios(), outgrowing_scenarios(), long_prompt_scenarios(), sglang_scenarios()),
    st.sampled_from([2, 3, 7]),
    st.sampled_from([0, 1]),
)
def test_chunks_of_tokens_where_pools_may_scale(scenario: Scenario, interval: int, look_ahead: int) -> None:
    check(scenario, interval, look_ahead, adapters={"scaling": {"provider": "scripted", "config": STAYING}})


@pytest.mark.parametrize("pair", [False, True])
def test_chunks_come_from_workers_that_came_later(pair: bool) -> None:
    """Passes of 1 ms, of which nobody else gets any: the third token comes 2 ms after the first."""
    rank = RANK | {"max_num_seqs": 4}
    pools = {name: {"initial_workers": 1} for name in (("prefill", "decode") if pair else ("workers",))}
    script = {"first_tick_ms": 40.0, "step_ms": 40.0}
    script["decisions"] = [{"target_prefill": 3 if pair else None, "target_decode": 3}]
    asked = {
        "topology": {"kind": "disaggregated" if pair else "aggregated", **pools},
        "engine": {name: {"rank": rank} for name in pools} if pair else {"rank": rank},
        "adapters": {"scaling": {"provider": "scripted", "config": script}},
        "frontend": {"stream_interval": 3},
        "requests": [
            {"id": f"r{n}", "arrival_time_ms": 100.0 * n, "input_tokens": 8, "output_tokens": 7}
            for n in range(6)
        ],
    }
    records = execute(asked)["per_request"]
    assert {record["decode_worker_idx"] for record in records} == {0, 1, 2}
    for record in records:
        assert record["client_first_token_ms"] == record["first_token_ms"] + 2.0
        assert record["client_last_token_ms"] == record["last_token_ms"]


@pytest.mark.parametrize(
    "frontend",
    [{"stream_interval": 3}, {"ttft_offset_ms": 4.5}, {"stream_interval": 2, "ttft_offset_ms": 4.5}],
)
def test_invariants_hold_for_what_clients_see(frontend: dict) -> None:
    requests = [(0.0, 8, 7), (3.0, 9, 1), (4.0, 8, 0), (30.0, 8, 12), (31.0, 999, 3)]
    authored = [
        {"id": str(n), "arrival_time_ms": at_ms, "input_tokens": isl, "output_tokens": osl}
        for n, (at_ms, isl, osl) in enumerate(requests)
    ]
    spec = payload_spec(RANK, 1) | {"requests": authored, "frontend": frontend}
    watched = execute({"spec": spec}, observers=[InvariantChecker(thorough=True)])
    assert watched["per_request"] == execute({"spec": spec})["per_request"]


def check_received(scenario: Scenario, interval: int, look_ahead: int = 0) -> None:
    """The whole replay equals that of an engine that goes pass by pass and looks now and then."""
    with tempfile.TemporaryDirectory() as folder:
        spec = scenario.payload["spec"] | {"frontend": {"receive_interval": interval}}
        rank = {
            name: value for name, value in spec["engine"]["rank"].items() if name != "prefill_decode_interval"
        }
        if look_ahead:
            rank = {name: value for name, value in rank.items() if not name.startswith("aic_")}
            rank["scheduling_look_ahead"] = 1
        spec["engine"] = spec["engine"] | {"rank": rank}
        payload = Scenario(scenario.payload | {"spec": spec}, scenario.rows).materialise(Path(folder))
        outcome, report = replay(payload), execute(payload)
    assert report_records(report) == oracle_records(outcome)
    figures = summary(outcome, spec["topology"]["workers"]["initial_workers"], spec["engine"]["dp_size"])
    assert {key: report[key] for key in figures} == pytest.approx(figures, rel=1e-9, abs=1e-6)


@budget(200)
@given(
    st.one_of(scenarios(), turnstile_scenarios(), long_prompt_scenarios(), sglang_scenarios()),
    st.sampled_from([2, 3, 5, 30]),
)
def test_requests_are_received_now_and_then(scenario: Scenario, interval: int) -> None:
    check_received(scenario, interval)


@budget(200)
@given(
    st.one_of(scenarios(), turnstile_scenarios(), long_prompt_scenarios(), sglang_scenarios()),
    st.sampled_from([2, 3, 5, 30]),
)
def test_requests_are_received_now_and_then_by_who_looks_ahead(scenario: Scenario, interval: int) -> None:
    check_received(scenario, interval, look_ahead=1)


RANK = {
    "backend": "vllm",
    "block_size": 4,
    "num_gpu_blocks": 64,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 64,
    "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0},
}


def served(
    frontend: dict | None, requests: list[tuple[float, int, int]], rank: dict | None = None, **spec: object
) -> dict:
    """The report of (arrival, input, output) requests; prefills last 10 ms, decodes 1 ms."""
    authored = [
        {"id": str(number), "arrival_time_ms": at_ms, "input_tokens": isl, "output_tokens": osl}
        for number, (at_ms, isl, osl) in enumerate(requests)
    ]
    whole = payload_spec(RANK | (rank or {}), 1) | {"requests": authored, "frontend": frontend} | spec
    return execute({"spec": whole})


def test_a_client_sees_a_chunk_when_its_last_token_is_there() -> None:
    report = served({"stream_interval": 4}, [(0.0, 8, 10), (100.0, 8, 3)])
    assert [record["client_ttft_ms"] for record in report["per_request"]] == [13.0, 12.0]
    assert report["max_ttft_ms"] == 13.0
    assert report["max_ttst_ms"] == 4.0
    assert report["max_tpot_ms"] == pytest.approx(6.0 / 9)
    assert report["mean_itl_ms"] == 1.0
    assert report["frontend"] == {
        "preset": None,
        "stream_interval": 4,
        "ttft_offset_ms": 0.0,
        "receive_interval": 1,
        "step_overhead_ms": 0.0,
    }


def test_everything_is_seen_later_by_the_offset() -> None:
    plain, late = (served(frontend, [(0.0, 8, 3)]) for frontend in (None, {"ttft_offset_ms": 5.0}))
    for key in ("mean_ttft_ms", "mean_e2e_latency_ms", "duration_ms"):
        assert late[key] == plain[key] + 5.0
    for key in ("mean_tpot_ms", "mean_ttst_ms", "mean_itl_ms", "gpu_hours"):
        assert late[key] == plain[key]
    assert late["per_request"][0]["last_token_ms"] == plain["per_request"][0]["last_token_ms"]
    assert late["per_request"][0]["client_last_token_ms"] == 17.0
    assert late["per_request"][0]["client_e2e_latency_ms"] == 17.0


def test_a_closed_loop_goes_on_when_the_client_saw_the_end() -> None:
    records = served({"ttft_offset_ms": 5.0}, [(0.0, 8, 3), (0.0, 8, 3)], max_in_flight=1)["per_request"]
    assert [record["arrival_time_ms"] for record in records] == [0.0, 17.0]


def test_a_goodput_is_that_of_clients() -> None:
    report = served({"stream_interval": 3}, [(0.0, 8, 10)], sla={"ttft_ms": 11.0})
    assert report["goodput_completed_requests"] == 0


def test_a_busy_engine_looks_for_requests_now_and_then() -> None:
    # 0-10 prefill, then decodes; it looks before the first pass, the fourth and so on: at 12.
    records = served({"receive_interval": 3}, [(0.0, 8, 9), (5.0, 8, 2)])["per_request"]
    assert records[1]["first_admit_ms"] == 12.0


def test_an_idle_engine_looks_at_once() -> None:
    records = served({"receive_interval": 30}, [(0.0, 8, 2), (4.0, 8, 2)])["per_request"]
    assert [record["first_admit_ms"] for record in records] == [0.0, 11.0]


@pytest.mark.parametrize("backend", ["vllm", "trtllm", "sglang"])
def test_every_pass_takes_longer_by_the_overhead(backend: str) -> None:
    """The same as longer forwards; a pass that prefills and decodes pays once."""
    rank = {"backend": backend} | ({"sglang": {}} if backend == "sglang" else {})
    slower = {"timing_model": {"type": "fixed", "prefill_ms": 12.0, "decode_ms": 3.0}}
    lone = [(0.0, 8, 9)]
    seen = served({"step_overhead_ms": 2.0}, lone, rank)
    assert seen["max_ttft_ms"] == served(None, lone, rank | slower)["max_ttft_ms"] == 12.0
    assert seen["mean_tpot_ms"] == 3.0
    plain, late = (served(end, [(0.0, 8, 9), (5.0, 8, 2)], rank) for end in (None, {"step_overhead_ms": 2.0}))
    # 8 passes that decode or do both, and a prefill before them, of which SGLang makes one more.
    passes = 10 if backend == "sglang" else 9
    assert late["duration_ms"] - plain["duration_ms"] == 2.0 * passes


@pytest.mark.parametrize(
    ("backend", "values"),
    [
        ("vllm", {"stream_interval": 5, "ttft_offset_ms": 0.0, "step_overhead_ms": 0.0}),
        ("trtllm", {"stream_interval": 9, "ttft_offset_ms": 0.0, "step_overhead_ms": 0.0}),
        ("sglang", {"stream_interval": 1, "ttft_offset_ms": 240.0, "step_overhead_ms": 2.25}),
    ],
)
def test_a_preset_is_that_of_the_backend(backend: str, values: dict) -> None:
    rank = {"backend": backend}
    if backend == "sglang":
        rank["sglang"] = {}
    for name in ("inferencex", f"inferencex-{backend}"):
        report = served({"preset": name}, [(0.0, 8, 40)], rank)
        assert report["frontend"] == {"preset": f"inferencex-{backend}", "receive_interval": 1} | values
    given = served({"preset": "inferencex", "stream_interval": 2}, [(0.0, 8, 40)], rank)["frontend"]
    assert given["stream_interval"] == 2


@pytest.mark.parametrize("frontend", [None, {}, {"stream_interval": 0, "ttft_offset_ms": 0.0}])
def test_a_front_end_that_does_nothing_is_not_there(frontend: dict | None) -> None:
    request = [(0.0, 8, 5), (3.0, 9, 4)]
    plain, seen = served(None, request), served(frontend, request)
    for report in (plain, seen):
        for key in [key for key in report if key.startswith(("wall_time", "processed"))]:
            del report[key]
    assert seen == plain


DRAFTS = {"aic_nextn": 1}
TIER = {"native_host_offload": {"num_host_blocks": 1}, "kv_cache_bytes_per_token": 1}
STATE = {
    "num_gpu_blocks": 64,
    "block_size": 4,
    "kv_cache_bytes_per_token": 1,
    "state_cache": {"bytes_per_request": 1},
}
PAUSES = {"backend": "sglang", "prefill_decode_interval": 1}
ROUTED = {"adapters": {"placement": {"provider": "kv_router"}}}


@pytest.mark.parametrize(
    ("frontend", "rank", "spec", "text"),
    [
        (
            {"preset": "inferencex-sglang"},
            {},
            {},
            "preset: 'inferencex-sglang' is fitted on another backend than 'vllm'; "
            "did you mean 'inferencex-vllm'?",
        ),
        (
            {"stream_interval": 2},
            DRAFTS,
            {},
            "stream_interval: 2 is not supported yet with aic_nextn 1 (supported: 0, 1)",
        ),
        (
            {"receive_interval": 2},
            TIER,
            {},
            "receive_interval: 2 is not supported yet with native_host_offload (supported: 0, 1)",
        ),
        (
            {"receive_interval": 2},
            STATE,
            {},
            "receive_interval: 2 is not supported yet with state_cache (supported: 0, 1)",
        ),
        (
            {"receive_interval": 2},
            {},
            ROUTED,
            "receive_interval: 2 is not supported yet with placement 'kv_router' (supported: 0, 1)",
        ),
        (
            {"receive_interval": 2},
            PAUSES,
            {},
            "receive_interval: 2 is not supported yet with prefill_decode_interval above 0 (supported: 0, 1)",
        ),
        ({"stream_interval": -1}, {}, {}, "stream_interval: -1 is not >= 0"),
        ({"preset": "inferencx"}, {}, {}, "did you mean 'inferencex'?"),
        ({"offset": 1}, {}, {}, "offset: unknown field"),
    ],
)
def test_what_is_not_built_is_refused_by_name(frontend: dict, rank: dict, spec: dict, text: str) -> None:
    with pytest.raises(AISimulateError) as caught:
        served(frontend, [(0.0, 8, 2)], rank, **spec)
    assert str(caught.value).startswith("spec.frontend.")
    assert text in str(caught.value)


@pytest.mark.parametrize("kind", ["aggregated", "pair"])
def test_invariants_hold_of_what_clients_see(kind):
    payload = PAYLOADS["plain" if kind == "aggregated" else "pair"]
    seen = {"stream_interval": 3, "ttft_offset_ms": 2.5}
    spec = payload["spec"] | {"frontend": seen}
    report = execute(payload | {"spec": spec}, observers=[InvariantChecker(thorough=True)])
    assert report["frontend"]["ttft_offset_ms"] == 2.5
