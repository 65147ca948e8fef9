"""`Workload`: the four load shapes, their rules, and what follows from them (spec 05 section 1.6)."""

import pytest
from pydantic import ValidationError
from spica_configs import SYNTHETIC, TRACE, make_config

from aisimulate.config.messages import one_line
from aisimulate.spica.config import SmartSearchConfig, Workload

LENGTHS = {"isl": 100, "osl": 20, "num_request_ratio": 10}


def refusal(**fields):
    with pytest.raises(ValidationError) as caught:
        Workload(**fields)
    return str(caught.value)


def test_trace_shape():
    workload = Workload(**TRACE, arrival_speedup_ratio=2)
    assert workload.is_trace_based and not workload.is_synthetic
    assert workload.effective_in_flight_cap(override=9) is None
    assert Workload(**TRACE, replay_concurrency=3).effective_in_flight_cap(override=9) == 3
    assert (workload.trace_format, workload.trace_block_size) == ("mooncake", 512)
    assert workload.kv_load_ratio_range is None


def test_concurrency_shape():
    workload = Workload(**LENGTHS, concurrency=256)
    assert workload.is_synthetic
    assert workload.resolved_request_count() == 2560
    assert workload.resolved_request_count(8) == 80
    assert workload.effective_in_flight_cap() == 256
    assert workload.effective_in_flight_cap(8) == 8
    assert workload.synthetic_arrival_interval_ms == 1.0


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({**LENGTHS, "isl": 10**7 + 1, "concurrency": 1}, "isl"),
        ({**LENGTHS, "osl": 2**40, "concurrency": 1}, "osl"),
        ({**LENGTHS, "num_request_ratio": 1e9, "request_rate": 1e9}, "num_request_ratio"),
        ({**LENGTHS, "concurrency": 10**6 + 1}, "num_request_ratio"),
        ({**LENGTHS, "concurrency": 10**5, "turns_per_session": 11}, "num_request_ratio"),
        ({**LENGTHS, "concurrency": 1, "num_prefix_groups": 2**32}, "num_prefix_groups"),
    ],
)
def test_what_could_not_be_replayed_is_refused(fields, field):
    assert f"{field} " in refusal(**fields)
    with pytest.raises(ValidationError) as caught:
        make_config(workload=fields)
    assert one_line(caught.value, "", SmartSearchConfig).startswith(f"workload.{field}: ")


def test_a_trace_block_is_as_long_as_the_payload_can_say():
    assert Workload(**TRACE, trace_block_size=2**32 - 1).block_tokens == 2**32 - 1
    with pytest.raises(ValidationError) as caught:
        make_config(workload=TRACE | {"trace_block_size": 2**32})
    assert one_line(caught.value, "", SmartSearchConfig).startswith(
        "workload.trace_block_size: trace_block_size must be at most 4294967295 tokens, got 4294967296"
    )


def test_the_largest_workload_is_accepted():
    workload = Workload(isl=10**7, osl=10**7, num_request_ratio=10, concurrency=10**6)
    assert workload.resolved_request_count() == 10**7


def test_a_cap_is_an_int():
    cap = Workload(**LENGTHS, concurrency=2.0).effective_in_flight_cap()
    assert cap == 2 and type(cap) is int


def test_request_rate_shape():
    workload = Workload(isl=1, osl=1, num_request_ratio=4, request_rate=25)
    assert workload.resolved_request_count() == 100
    assert workload.synthetic_arrival_interval_ms == 40.0
    assert workload.effective_in_flight_cap() is None


def test_kv_load_shape():
    workload = Workload(**LENGTHS, kv_load_ratio=1.5)
    assert workload.kv_load_ratio == 1.5
    assert workload.kv_load_ratio_range is None
    with pytest.raises(ValueError, match="concurrency_override"):
        workload.resolved_request_count()
    assert workload.resolved_request_count(3) == 30
    assert workload.effective_in_flight_cap(3) == 3
    assert Workload(**LENGTHS, kv_load_ratio=0).kv_load_ratio == 0.0


def test_ranged_kv_load():
    workload = Workload(**LENGTHS, kv_load_ratio=[0, 1])
    assert workload.kv_load_ratio == [0.0, 1.0]
    assert workload.kv_load_ratio_range == (0.0, 1.0)


@pytest.mark.parametrize(
    ("ratio", "load", "count"), [(2.5, 1, 3), (0.5, 1, 1), (0.5, 3, 2), (0.1, 1, 1), (1.5, 3, 5), (1, 7, 7)]
)
def test_request_counts_round_half_away_from_zero(ratio, load, count):
    assert Workload(isl=1, osl=1, num_request_ratio=ratio, concurrency=load).resolved_request_count() == count


@pytest.mark.parametrize("value", [[0.5], [0, 0.5, 1], [0.5, 0.5], [-1, 1], [0, float("inf")], [False, 1]])
def test_bad_ranges(value):
    assert "kv_load_ratio" in refusal(**LENGTHS, kv_load_ratio=value)


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "much", {}, True])
def test_bad_ratios(value):
    assert "kv_load_ratio must be a finite number >= 0" in refusal(**LENGTHS, kv_load_ratio=value)


@pytest.mark.parametrize("name", ["isl", "osl", "num_request_ratio", "concurrency"])
@pytest.mark.parametrize("value", [0, -3])
def test_positive_numbers(name, value):
    assert f"{name} must be positive" in refusal(**(SYNTHETIC | {name: value}))


@pytest.mark.parametrize("value", [True, [1, 2], 2.5])
def test_concurrency_is_one_whole_number(value):
    assert "concurrency" in refusal(**(SYNTHETIC | {"concurrency": value}))


def test_missing_lengths_are_all_named():
    message = refusal(concurrency=4)
    assert "isl, osl, num_request_ratio" in message


@pytest.mark.parametrize(
    "loads", [{}, {"concurrency": 1, "request_rate": 2}, {"concurrency": 1, "kv_load_ratio": 1}]
)
def test_exactly_one_load(loads):
    message = refusal(**LENGTHS, **loads)
    assert "exactly one of request_rate, concurrency, or kv_load_ratio" in message


def test_trace_refuses_synthetic_fields():
    message = refusal(**TRACE, isl=5, concurrency=2, inter_turn_delay_ms=3)
    assert "must not set synthetic fields: isl, concurrency, inter_turn_delay_ms" in message


def test_replay_concurrency_rules():
    assert "for trace workloads" in refusal(**SYNTHETIC, replay_concurrency=3)
    assert "positive integer" in refusal(**TRACE, replay_concurrency=0)


@pytest.mark.parametrize(
    ("field", "value"), [("trace_format", "dynamo"), ("trace_block_size", 16), ("arrival_speedup_ratio", 2)]
)
def test_trace_settings_on_synthetic_traffic_are_refused(field, value):
    message = refusal(**SYNTHETIC, **{field: value})
    assert field in message and "trace workloads" in message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("trace_path", ""),
        ("trace_block_size", 0),
        ("arrival_speedup_ratio", 0),
        ("arrival_speedup_ratio", float("inf")),
    ],
)
def test_trace_field_bounds(field, value):
    assert field in refusal(**(TRACE | {field: value}))


def test_unknown_trace_format_lists_the_known_and_the_nearest():
    message = refusal(**TRACE, trace_format="mooncak")
    assert "mooncake-delta" in message and "did you mean 'mooncake'?" in message


@pytest.mark.parametrize(
    ("field", "value"),
    [("num_prefix_groups", -1), ("inter_turn_delay_ms", -1), ("shared_prefix_ratio", -0.1)],
)
def test_session_field_bounds(field, value):
    assert field in refusal(**SYNTHETIC, **{field: value})


def test_a_shared_prefix_needs_a_group():
    assert "num_prefix_groups" in refusal(**SYNTHETIC, shared_prefix_ratio=0.5)
    assert Workload(**SYNTHETIC, shared_prefix_ratio=0.5, num_prefix_groups=2).num_prefix_groups == 2


def test_pareto_without_a_load_searches_the_whole_range():
    config = make_config(workload=dict(LENGTHS), goal={"target": "pareto"})
    assert config.workload.kv_load_ratio == [0.0, 1.0]


@pytest.mark.parametrize("workload", [LENGTHS | {"concurrency": 3}, TRACE, LENGTHS | {"kv_load_ratio": 0.5}])
def test_pareto_keeps_a_given_load(workload):
    config = make_config(workload=workload, goal={"target": "pareto"})
    assert config.workload == Workload(**workload)


def test_a_ranged_load_is_for_pareto_only():
    with pytest.raises(ValidationError) as caught:
        make_config(workload=LENGTHS | {"kv_load_ratio": [0, 1]}, goal={"target": "e2e_latency"})
    text = str(caught.value)
    assert "ranged workload.kv_load_ratio" in text and "'e2e_latency'" in text and "scalar" in text


def test_a_trace_has_no_request_count():
    with pytest.raises(ValueError, match="trace"):
        Workload(**TRACE).resolved_request_count()
