"""From traffic settings to sessions: sources, loads, caps, relative stops, KV load, trace cache."""

import json
import os

import pytest

from aisimulate.config.messages import parse_model
from aisimulate.config.payload import parse_payload
from aisimulate.config.rank import RankConfig
from aisimulate.config.traffic import RuntimeTraffic
from aisimulate.replay import traffic as resolution
from aisimulate.replay.traffic import build_workload, inline_workload, resolve_kv_capacity, session_count

from .payloads import REQUEST, SESSIONS, SYNTHETIC, TRACE, refused, spec

ROWS = [
    {"session_id": "a", "timestamp": 1000, "input_length": 8, "output_length": 2, "hash_ids": [1, 2]},
    {"session_id": "b", "timestamp": 1400, "input_length": 4, "output_length": 1, "hash_ids": [3]},
    {"session_id": "a", "delay": 50, "input_length": 8, "output_length": 2, "hash_ids": [1, 2]},
]
KV = {**SYNTHETIC, "isl": 6, "osl": 5, "load_type": "kv_capacity_fraction", "kv_load_ratio": 0.5}
RANK = RankConfig(num_gpu_blocks=25, block_size=4)


def _traffic(**fields):
    return parse_model(RuntimeTraffic, fields, "traffic")


def _trace(path, rows=ROWS, **fields):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return _traffic(source_type="trace", trace_path=str(path), trace_block_size=4, **fields)


def _starts(workload):
    return [session.arrival_ms for session in workload.sessions]


# Traces


def test_an_open_loop_trace_starts_at_zero_and_is_sped_up(tmp_path):
    workload = build_workload(_trace(tmp_path / "t", arrival_speedup_ratio=2.0), 16)
    assert _starts(workload) == [0.0, 200.0]
    assert [turn.delay_ms for turn in workload.sessions[0].turns] == [0.0, 25.0]
    assert (workload.content_block_tokens, workload.concurrency, workload.accumulate) == (4, None, False)


def test_the_default_trace_block_has_512_tokens(tmp_path):
    path = tmp_path / "t"
    path.write_text('{"timestamp": 5, "output_length": 1, "hash_ids": [7, 8]}\n')
    workload = build_workload(_traffic(source_type="trace", trace_paths=[str(path)]), 16)
    assert workload.content_block_tokens == 512
    assert workload.sessions[0].turns[0].input_tokens == 1024


def test_a_capped_trace_is_a_closed_loop(tmp_path):
    traffic = _trace(tmp_path / "t", replay_concurrency=3)
    assert build_workload(traffic, 16).concurrency == 3
    assert build_workload(_trace(tmp_path / "t"), 16, max_in_flight=5).concurrency == 5


def test_a_speed_up_needs_something_to_divide(tmp_path):
    capped = build_workload(_trace(tmp_path / "t", replay_concurrency=1, arrival_speedup_ratio=2.0), 16)
    assert capped.sessions[0].turns[1].delay_ms == 25.0
    flat = _trace(tmp_path / "flat", ROWS[:2], replay_concurrency=1, arrival_speedup_ratio=2.0)
    assert refused(build_workload, flat, 16) == (
        "traffic.arrival_speedup_ratio: 2 has no effect with a concurrency cap: arrivals are ignored, and no "
        "turn of this trace has a delay"
    )
    assert len(build_workload(_trace(tmp_path / "flat", ROWS[:2], replay_concurrency=1), 16).sessions) == 2


def test_an_unreadable_trace_is_named(tmp_path):
    missing = tmp_path / "missing.jsonl"
    text = refused(build_workload, _traffic(source_type="trace", trace_path=str(missing)), 16)
    assert text == f"{missing}: no such file"
    assert "not usable" in refused(parse_payload, '"\\ud800"')
    assert refused(build_workload, _traffic(source_type="trace", trace_path="a\0b"), 16)


def test_one_file_per_mooncake_trace(tmp_path):
    paths = [str(tmp_path / name) for name in "ab"]
    for path in paths:
        _trace(tmp_path / path)
    text = refused(build_workload, _traffic(source_type="trace", trace_paths=paths), 16)
    assert text == "trace format 'mooncake' takes exactly one file, got 2"


def test_bad_rows_name_file_and_line(tmp_path):
    path = tmp_path / "t"
    text = refused(build_workload, _trace(path, [ROWS[0], {**ROWS[1], "input_length": 9}]), 16)
    assert text.startswith(f"{path}:2: input_length 9")


def test_unknown_fields_of_rows_are_noted_each_time_the_trace_is_used(tmp_path):
    path = tmp_path / "t"
    traffic = _trace(path, [ROWS[0], {**ROWS[1], "hash_id": [4]}])
    note = f"{path}:2: unknown field 'hash_id', ignored; did you mean 'hash_ids'?"
    first = build_workload(traffic, 16)
    first.notes.append("a note of this replay alone")
    assert build_workload(traffic, 16).notes == [note]


def test_a_session_without_a_first_timestamp_is_named_with_file_and_line(tmp_path):
    path = tmp_path / "t"
    rows = [ROWS[0], {name: value for name, value in ROWS[1].items() if name != "timestamp"}]
    assert refused(build_workload, _trace(path, rows), 16) == (
        f"{path}:2: session 'b' has no first timestamp: an open-loop replay needs one for every session "
        "(or set replay_concurrency)"
    )
    assert build_workload(_trace(path, rows), 16, max_in_flight=1).concurrency == 1


def test_a_trace_is_parsed_once_until_the_file_changes(tmp_path, monkeypatch):
    loads = []
    real = resolution.load_trace
    monkeypatch.setattr(resolution, "load_trace", lambda *args: loads.append(args) or real(*args))
    path = tmp_path / "t"
    traffic = _trace(path)
    first, second = build_workload(traffic, 16), build_workload(traffic, 32)
    assert (len(loads), first.sessions is second.sessions) == (1, True)
    build_workload(_traffic(**{**traffic.model_dump(exclude_none=True), "arrival_speedup_ratio": 2.0}), 16)
    assert len(loads) == 1
    build_workload(_traffic(**{**traffic.model_dump(exclude_none=True), "trace_block_size": 8}), 16)
    assert len(loads) == 2
    _trace(path, ROWS[:1])
    os.utime(path, ns=(1, 1))
    assert len(build_workload(traffic, 16).sessions) == 1
    assert len(loads) == 3
    assert _starts(first) == [0.0, 400.0]


# Synthetic load


def test_concurrency_without_a_cap_is_an_open_loop_burst():
    workload = build_workload(_traffic(**SYNTHETIC), 16)
    assert _starts(workload) == [0.0, 0.0, 0.0]
    assert (workload.concurrency, workload.accumulate, workload.content_block_tokens) == (None, False, 16)
    assert [(turn.input_tokens, turn.output_tokens) for s in workload.sessions for turn in s.turns] == [
        (8, 2)
    ] * 3


def test_a_cap_makes_a_closed_loop():
    assert build_workload(_traffic(**SYNTHETIC, concurrency=2), 16).concurrency == 2
    assert build_workload(_traffic(**SYNTHETIC), 16, max_in_flight=2).concurrency == 2
    assert build_workload(_traffic(**SYNTHETIC, concurrency=2), 16, max_in_flight=2).concurrency == 2


def test_constant_rate_from_interval_or_rate():
    by_interval = _traffic(**SYNTHETIC, load_type="constant_rate", arrival_interval_ms=40.0)
    by_rate = _traffic(**SYNTHETIC, load_type="constant_rate", request_rate=25.0)
    for traffic in (by_interval, by_rate):
        assert _starts(build_workload(traffic, 16)) == [0.0, 40.0, 80.0]


def test_poisson_arrivals_use_seed_42_unless_told_otherwise():
    poisson = {**SYNTHETIC, "load_type": "poisson", "request_rate": 10.0}
    starts = [0.0, 74.77246176406965, 153.01953951913882]
    assert _starts(build_workload(_traffic(**poisson), 16)) == pytest.approx(starts, rel=1e-12)
    seeded = build_workload(_traffic(**poisson, arrival_seed=7), 16)
    assert _starts(seeded) == pytest.approx([0.0, 3.0786437168091014, 39.76362317455055], rel=1e-12)
    assert _starts(build_workload(_traffic(**poisson, arrival_seed=0), 16)) != _starts(seeded)


@pytest.mark.parametrize(
    "load",
    [
        {"load_type": "poisson", "request_rate": 10.0},
        {"load_type": "constant_rate", "arrival_interval_ms": 9.0},
    ],
)
def test_a_cap_wins_over_arrivals_and_says_so(load):
    workload = build_workload(_traffic(**SYNTHETIC, **load, concurrency=2), 16)
    assert workload.concurrency == 2
    assert workload.notes == [
        f"the concurrency cap 2 paces the load: load_type {load['load_type']!r} has no effect"
    ]


def test_synthetic_sessions_have_four_turns_and_accumulate():
    workload = build_workload(_traffic(**SESSIONS), 16)
    assert ([len(session.turns) for session in workload.sessions], workload.accumulate) == ([4, 4, 4], True)
    workload = build_workload(_traffic(**SESSIONS, turns_per_session=2, inter_turn_delay_ms=30.0), 16)
    assert [[turn.delay_ms for turn in s.turns] for s in workload.sessions] == [[0.0, 30.0]] * 3


def test_prefix_groups_are_drawn_with_content_seed_0():
    fields = {**SYNTHETIC, "isl": 16, "request_count": 12, "shared_prefix_ratio": 0.5, "num_prefix_groups": 3}
    workload = build_workload(_traffic(**fields), 4)
    groups = [session.turns[0].block_ids[0] // 2 for session in workload.sessions]
    assert groups == [2, 2, 1, 2, 2, 0, 2, 1, 2, 0, 0, 2]
    assert workload.notes == []


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"shared_prefix_ratio": 0.5}, "shared_prefix_ratio 0.5 has no effect without num_prefix_groups"),
        ({"num_prefix_groups": 2}, "num_prefix_groups 2 has no effect without shared_prefix_ratio"),
    ],
)
def test_half_a_prefix_setting_is_noted(fields, note):
    assert build_workload(_traffic(**SYNTHETIC, **fields), 16).notes == [note]


@pytest.mark.parametrize("block_tokens", [0, -1])
def test_the_engine_block_must_be_positive(block_tokens):
    text = refused(build_workload, _traffic(**SYNTHETIC), block_tokens)
    assert text == f"engine block size must be positive, got {block_tokens}"


# Session counts


@pytest.mark.parametrize(
    ("load", "ratio", "count"),
    [
        ({"concurrency": 5}, 0.5, 3),
        ({"concurrency": 1}, 2.5, 3),
        ({"concurrency": 5}, 0.01, 1),
        ({"concurrency": 4}, 10, 40),
        ({"request_rate": 2.5}, 3, 8),
        ({"arrival_interval_ms": 40.0}, 2, 50),
        ({"load_type": "poisson", "request_rate": 4.0, "concurrency": 2}, 2, 4),
        ({"load_type": "constant_rate", "request_rate": 4.0, "arrival_interval_ms": 250.0}, 2, 8),
    ],
)
def test_a_relative_stop_rounds_half_away_from_zero(load, ratio, count):
    traffic = _traffic(source_type="synthetic", isl=8, osl=2, num_request_ratio=ratio, **load)
    assert session_count(traffic) == count
    assert len(build_workload(traffic, 16).sessions) == count


def test_an_absolute_count_counts_sessions():
    assert session_count(_traffic(**SYNTHETIC)) == 3
    assert len(build_workload(_traffic(**SESSIONS), 16).sessions) == 3


def test_a_kv_load_with_too_many_requests_is_refused():
    traffic = _traffic(**{**KV, "request_count": None, "num_request_ratio": 1000})
    assert refused(session_count, traffic.model_copy(update={"concurrency": 10_001})) == (
        "traffic.num_request_ratio: gives 10001000 sessions, which is not <= 10000000"
    )


@pytest.mark.parametrize(("field", "value"), [("request_rate", 1e-12), ("arrival_interval_ms", 1e15)])
def test_arrivals_beyond_the_clock_are_refused(field, value):
    traffic = _traffic(**SYNTHETIC, load_type="constant_rate", **{field: value})
    assert refused(build_workload, traffic, 16) == (
        f"traffic.{field}: the last session would start at 2e+15 ms, beyond 4e+12"
    )


# KV load


@pytest.mark.parametrize(
    ("ratio", "blocks", "dp_size", "replicas", "concurrency"),
    [
        (0.5, 25, 1, 1, 6),
        (1.0, 25, 1, 1, 12),
        (1.5, 25, 1, 1, 18),
        (0.01, 25, 1, 1, 1),
        (1.0, 25, 2, 3, 75),
        (1, 2, 1, 1, 1),
    ],
)
def test_kv_load_is_a_share_of_the_requests_that_fit(ratio, blocks, dp_size, replicas, concurrency):
    rank = RANK.model_copy(update={"num_gpu_blocks": blocks})
    traffic = _traffic(**{**KV, "kv_load_ratio": ratio})
    assert resolve_kv_capacity(traffic, rank, dp_size, replicas) == concurrency


def test_a_resolved_kv_load_is_a_closed_loop():
    fields = {name: value for name, value in KV.items() if name != "request_count"}
    traffic = _traffic(**fields, num_request_ratio=2)
    assert refused(build_workload, traffic, 4) == (
        "traffic.kv_load_ratio: the KV load was not resolved into a concurrency"
    )
    resolved = traffic.model_copy(update={"concurrency": resolve_kv_capacity(traffic, RANK, 1, 1)})
    workload = build_workload(resolved, 4)
    assert (workload.concurrency, len(workload.sessions), workload.notes) == (6, 12, [])


def test_other_loads_are_not_kv_loads():
    assert resolve_kv_capacity(_traffic(**SYNTHETIC), RANK, 1, 1) is None
    assert resolve_kv_capacity(_traffic(**TRACE), RANK, 1, 1) is None


def test_a_pool_too_small_for_one_request_is_refused():
    rank = RANK.model_copy(update={"num_gpu_blocks": 1})
    assert refused(resolve_kv_capacity, _traffic(**KV), rank, 1, 1) == (
        "candidate KV capacity cannot hold one request: 4 tokens, 8 needed"
    )


def test_kv_overflows_are_refused():
    huge = RANK.model_copy(update={"num_gpu_blocks": 2**62})
    assert refused(resolve_kv_capacity, _traffic(**KV), huge, 1, 1).startswith(
        "aggregate KV capacity overflow"
    )
    text = refused(resolve_kv_capacity, _traffic(**{**KV, "kv_load_ratio": 1e300}), RANK, 1, 1)
    assert text.startswith("traffic.kv_load_ratio: gives 1.2e+301")


# Inline requests


def test_inline_requests_become_sessions_in_order_of_arrival():
    requests = [
        {**REQUEST, "id": "late", "arrival_time_ms": 5},
        {**REQUEST, "id": "first", "session_id": "s", "turn_index": 2, "metadata": {"tag": 1}, "dp_rank": 1},
        {**REQUEST, "id": "planned", "output_token_ids": [1, 2, 3]},
    ]
    parsed = parse_payload(spec(requests=requests, max_in_flight=2, engine={"dp_size": 2})).spec
    workload = inline_workload(parsed)
    assert [session.turns[0].request_id for session in workload.sessions] == ["first", "planned", "late"]
    first = workload.sessions[0]
    assert (first.session_id, first.turn_offset, first.turns[0].metadata) == ("s", 2, {"tag": 1})
    assert (first.turns[0].dp_rank, workload.concurrency) == (1, 2)
    assert workload.sessions[1].turns[0].output_tokens == 3


@pytest.mark.parametrize(
    ("requests", "start"),
    [
        ([REQUEST, REQUEST], "spec.requests[1].id 'r': already used by requests[0]"),
        ([{**REQUEST, "id": ""}], "spec.requests[0].id ''"),
        ([{**REQUEST, "dp_rank": 1}], "spec.requests[0].dp_rank 1"),
        ([{**REQUEST, "input_token_ids": [1]}], "spec.requests[0].input_token_ids"),
        ([{**REQUEST, "metadata": {"priority": "high"}}], "spec.requests[0].metadata.priority"),
        ([{**REQUEST, "metadata": {"strict_priority": -1}}], "spec.requests[0].metadata.strict_priority"),
        ([{**REQUEST, "metadata": {"policy_class": 3}}], "spec.requests[0].metadata.policy_class"),
    ],
)
def test_bad_requests_are_refused_with_their_place(requests, start):
    parsed = parse_payload(spec(requests=requests)).spec
    assert refused(inline_workload, parsed).startswith(start)
