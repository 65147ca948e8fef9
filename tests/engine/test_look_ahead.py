"""Replays that look one pass ahead, against the oracle that does so step by step: every request, every ns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.core.errors import UnsupportedError
from aisimulate.replay.execute import execute
from oracle.disagg_strategies import crowded_disagg_scenarios, disagg_scenarios, sglang_pair_scenarios
from oracle.sglang_strategies import (
    crowded_draft_scenarios,
    sglang_echo_scenarios,
    sglang_scenarios,
    sglang_turnstile_scenarios,
)
from oracle.strategies import (
    Scenario,
    echo_scenarios,
    eviction_scenarios,
    long_prompt_scenarios,
    outgrowing_scenarios,
    payload_spec,
    scenarios,
    turnstile_scenarios,
)

from .test_differential import budget, check
from .test_differential_disagg import check as check_pair

MOST_RANKS = 3


def ahead(scenario: Scenario) -> Scenario:
    """The same scenario, one pass ahead and without drafts."""
    spec = scenario.payload["spec"]
    engine = spec["engine"]
    rank = {key: value for key, value in engine["rank"].items() if not key.startswith("aic_")}
    rank["scheduling_look_ahead"] = 1
    engine = engine | {"rank": rank, "dp_size": min(MOST_RANKS, engine["dp_size"])}
    return Scenario(scenario.payload | {"spec": spec | {"engine": engine}}, scenario.rows)


def ahead_scenarios() -> st.SearchStrategy[Scenario]:
    """Every kind of scenario that the engine without look-ahead is tried on."""
    kinds = [
        scenarios(),
        scenarios(trace_format="mooncake-delta"),
        turnstile_scenarios(),
        outgrowing_scenarios(),
        long_prompt_scenarios(),
        echo_scenarios(),
        eviction_scenarios(),
    ]
    return st.one_of(kinds).map(ahead)


def with_drafts(scenario: Scenario) -> Scenario:
    """The same scenario one pass ahead, with its drafts."""
    spec = scenario.payload["spec"]
    engine = spec["engine"]
    rank = (
        {"aic_nextn": 2, "aic_nextn_accept_rates": "0.8,0.5"} | engine["rank"] | {"scheduling_look_ahead": 1}
    )
    rank.pop("decode_speedup_ratio", None)
    engine = engine | {"rank": rank, "dp_size": min(MOST_RANKS, engine["dp_size"])}
    return Scenario(scenario.payload | {"spec": spec | {"engine": engine}}, scenario.rows)


@budget(300)
@given(
    st.one_of(scenarios(), turnstile_scenarios(), outgrowing_scenarios(), long_prompt_scenarios()).map(
        with_drafts
    )
)
def test_drafts_equal_the_oracle(scenario: Scenario) -> None:
    check(scenario)


@budget(400)
@given(ahead_scenarios())
def test_equals_the_oracle(scenario: Scenario) -> None:
    check(scenario)


def ahead_sglang(scenario: Scenario) -> Scenario:
    """The same scenario, one pass ahead, without drafts and pauses."""
    found = ahead(scenario)
    engine = found.payload["spec"]["engine"]
    engine["rank"].pop("prefill_decode_interval", None)
    return found


SGLANG = st.one_of(sglang_scenarios(), sglang_echo_scenarios(), sglang_turnstile_scenarios())


@budget(300)
@given(SGLANG.map(ahead_sglang))
def test_sglang_equals_the_oracle(scenario: Scenario) -> None:
    check(scenario)


def sglang_with_drafts(scenario: Scenario) -> Scenario:
    """The same scenario, one pass ahead and with drafts, without pauses."""
    found = with_drafts(scenario)
    found.payload["spec"]["engine"]["rank"].pop("prefill_decode_interval", None)
    return found


@budget(250)
@given(
    st.one_of(sglang_scenarios(), sglang_turnstile_scenarios(), crowded_draft_scenarios()).map(
        sglang_with_drafts
    )
)
def test_sglang_drafts_equal_the_oracle(scenario: Scenario) -> None:
    check(scenario)


def ahead_pair(made: tuple[Scenario, tuple[int, int]]) -> Scenario:
    """The same pair of pools, one or both of them one pass ahead, without drafts and cadence."""
    scenario, look_ahead = made
    spec = scenario.payload["spec"]
    roles = {}
    for (stage, role), passes in zip(spec["engine"].items(), look_ahead, strict=True):
        rank = {key: value for key, value in role["rank"].items() if not key.startswith("aic_")}
        rank.pop("prefill_schedule_interval", None)
        rank.pop("prefill_decode_interval", None)
        roles[stage] = role | {"rank": rank | {"scheduling_look_ahead": passes}}
    return Scenario(scenario.payload | {"spec": spec | {"engine": roles}}, scenario.rows)


PAIRS = st.tuples(
    st.one_of(disagg_scenarios(), crowded_disagg_scenarios()), st.sampled_from([(1, 1), (1, 0), (0, 1)])
)


@budget(300)
@given(PAIRS.map(ahead_pair))
def test_pairs_of_pools_equal_the_oracle(scenario: Scenario) -> None:
    check_pair(scenario)


SGLANG_PAIRS = st.tuples(sglang_pair_scenarios(), st.sampled_from([(1, 1), (1, 0), (0, 1)]))


@budget(300)
@given(SGLANG_PAIRS.map(ahead_pair))
def test_pairs_of_sglang_pools_equal_the_oracle(scenario: Scenario) -> None:
    check_pair(scenario)


RANK = {
    "backend": "vllm",
    "block_size": 4,
    "num_gpu_blocks": 64,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 64,
    "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0},
    "scheduling_look_ahead": 1,
}


def served(requests: list[tuple[float, int, int]], **rank: object) -> dict[str, dict]:
    """Records of (arrival, input, output) requests by their number; prefills last 10 ms, decodes 1 ms."""
    authored = [
        {"id": str(number), "arrival_time_ms": at_ms, "input_tokens": isl, "output_tokens": osl}
        for number, (at_ms, isl, osl) in enumerate(requests)
    ]
    report = execute({"spec": payload_spec(RANK | rank, 1) | {"requests": authored}})
    assert report["scheduling_look_ahead"] == 1
    return {record["request_id"]: record for record in report["per_request"]}


def times(record: dict) -> tuple[float, float, float]:
    assert record["scheduled_ms"] == record["first_admit_ms"]
    return record["scheduled_ms"], record["first_token_ms"], record["last_token_ms"]


def test_an_arrival_waits_for_the_pass_already_planned() -> None:
    # 0-10 prefill, 10-11 decode, both planned at 0; the second request joins what is planned at 10.
    records = served([(0.0, 8, 5), (5.0, 9, 2)])
    assert times(records["0"]) == (0.0, 10.0, 24.0)
    assert times(records["1"]) == (10.0, 22.0, 23.0)


def test_an_arrival_at_the_end_of_a_pass_joins_the_plan_made_then() -> None:
    assert times(served([(0.0, 8, 5), (10.0, 9, 2)])["1"]) == (10.0, 22.0, 23.0)
    assert times(served([(0.0, 8, 5), (10.25, 9, 2)])["1"]) == (11.0, 23.0, 24.0)


def test_a_seat_is_free_once_the_pass_in_flight_has_ended() -> None:
    # The first request gets its last token at 12 in a pass that begins at 11, when the next one is planned.
    records = served([(0.0, 8, 3), (0.0, 9, 3), (0.0, 9, 9)], max_num_seqs=2)
    assert times(records["1"]) == (0.0, 10.0, 12.0)
    assert times(records["2"]) == (12.0, 22.0, 30.0)


def test_blocks_are_free_once_the_pass_in_flight_has_ended() -> None:
    # 4 + 3 blocks; the third request needs 3 of 8, and the other one decodes on at 12.
    requests = [(0.0, 13, 3), (0.0, 9, 9), (0.0, 9, 2)]
    assert times(served(requests, num_gpu_blocks=8)["2"]) == (12.0, 24.0, 25.0)


def test_an_idle_worker_plans_at_once() -> None:
    assert times(served([(3.0, 8, 1), (20.0, 8, 1)])["1"]) == (20.0, 30.0, 30.0)


def test_drafts_are_accepted_in_the_pass_in_flight() -> None:
    """Bursts of 3: prefill to 11, tokens 4 to 6 to 12, the last one to 13, planned at 11."""
    drafts = {"aic_nextn": 2, "aic_nextn_accept_rates": "1,1"}
    records = served([(0.0, 8, 7), (11.5, 8, 1)], **drafts)
    assert times(records["0"]) == (0.0, 11.0, 13.0)
    # Planned at 12, behind the pass that ends at 13.
    assert times(records["1"]) == (12.0, 24.0, 24.0)


def test_a_rejection_takes_no_time_on_an_idle_worker() -> None:
    record = served([(0.0, 999, 1), (4.0, 8, 1)])["0"]
    assert (record["terminal_status"], record["terminal_time_ms"]) == ("rejected", 0.0)


def test_records_without_look_ahead_are_as_ever() -> None:
    request = {"id": "a", "arrival_time_ms": 0.0, "input_tokens": 8, "output_tokens": 2}
    spec = payload_spec(RANK | {"scheduling_look_ahead": 0}, 1) | {"requests": [request]}
    report = execute({"spec": spec})
    assert "scheduling_look_ahead" not in report
    assert "scheduled_ms" not in report["per_request"][0]


REFUSED = [
    (
        {"rank": {"backend": "sglang", "prefill_decode_interval": 2}},
        "with prefill_decode_interval 2",
    ),
    (
        {"dp_size": 2, "rank": {"prefill_schedule_interval": 2}},
        "with prefill_schedule_interval 2",
    ),
    (
        {"rank": {"native_host_offload": {"num_host_blocks": 1}, "kv_cache_bytes_per_token": 1}},
        "with native_host_offload",
    ),
    (
        {
            "rank": {
                "num_gpu_blocks": 64,
                "block_size": 4,
                "kv_cache_bytes_per_token": 1,
                "state_cache": {"bytes_per_request": 1},
            }
        },
        "with state_cache",
    ),
]


def test_a_pair_of_pools() -> None:
    # The first prompt is all there is to plan, so that the second one is planned when it has ended.
    rank = {key: value for key, value in RANK.items() if key != "max_num_seqs"} | {
        "max_num_batched_tokens": 8
    }
    pool = {"initial_workers": 1}
    spec = payload_spec(rank, 1) | {
        "topology": {"kind": "disaggregated", "prefill": pool, "decode": pool},
        "requests": [
            {"id": str(n), "arrival_time_ms": at_ms, "input_tokens": 8, "output_tokens": 3}
            for n, at_ms in enumerate((0.0, 5.0))
        ],
    }
    records = execute({"spec": spec})["per_request"]
    assert [record["scheduled_ms"] for record in records] == [0.0, 10.0]
    assert [record["prefill_admit_ms"] for record in records] == [0.0, 10.0]
    assert [record["first_token_ms"] for record in records] == [11.0, 21.0]
    assert [record["last_token_ms"] for record in records] == [13.0, 23.0]


@pytest.mark.parametrize(("engine", "beside"), REFUSED)
def test_what_is_not_built_is_refused_by_name(engine: dict, beside: str) -> None:
    spec = payload_spec(RANK | engine.get("rank", {}), 1, engine.get("dp_size", 1))
    request = {"id": "a", "arrival_time_ms": 0.0, "input_tokens": 8, "output_tokens": 2}
    with pytest.raises(UnsupportedError) as caught:
        execute({"spec": spec | {"requests": [request]}})
    path = "spec.engine.rank.scheduling_look_ahead"
    assert str(caught.value) == f"{path}: 1 is not supported yet {beside} (supported: 0)"
