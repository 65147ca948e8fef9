"""The traffic half: ranges, what each source needs, and settings that could not act."""

import pytest

from aisimulate.config.messages import parse_model
from aisimulate.config.traffic import RuntimeTraffic

from .payloads import SESSIONS, SYNTHETIC, TRACE, refused

POISSON = {**SYNTHETIC, "load_type": "poisson", "request_rate": 10.0}
CONSTANT = {**SYNTHETIC, "load_type": "constant_rate", "arrival_interval_ms": 40.0}
KV = {**SYNTHETIC, "load_type": "kv_capacity_fraction", "kv_load_ratio": 0.5}
RELATIVE = {"source_type": "synthetic", "isl": 8, "osl": 2, "num_request_ratio": 2.0}
BOTH_SYNTHETIC = "source_type 'synthetic' and 'synthetic-session'"


def _traffic(**fields):
    return parse_model(RuntimeTraffic, fields, "traffic")


def _without(payload, *names):
    return {name: value for name, value in payload.items() if name not in names}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"source_type": "synthetics"},
            "source_type: 'synthetics' is not one of 'trace', 'synthetic', 'synthetic-session'; "
            "did you mean 'synthetic'?",
        ),
        ({}, "source_type: missing (required)"),
        ({**SYNTHETIC, "concurency": 4}, "concurency: unknown field; did you mean 'concurrency'?"),
        ({**SYNTHETIC, "isl": -3}, "isl: -3 is not > 0"),
        ({**SYNTHETIC, "isl": 0}, "isl: 0 is not > 0"),
        ({**SYNTHETIC, "isl": 10**7 + 1}, "isl: 10000001 is not <= 10000000"),
        ({**SYNTHETIC, "osl": 2**32}, f"osl: {2**32} is not <= 10000000"),
        ({**SYNTHETIC, "request_count": 2**32}, f"request_count: {2**32} is not <= 10000000"),
        (
            {**SESSIONS, "request_count": 10**6, "turns_per_session": 11},
            "request_count: gives 1000000 sessions x 11 turns, which is not <= 10000000",
        ),
        (
            {**RELATIVE, "load_type": "poisson", "request_rate": 5000001},
            "num_request_ratio: gives 10000002 sessions, which is not <= 10000000",
        ),
        (
            {**RELATIVE, "load_type": "constant_rate", "arrival_interval_ms": 5e-324},
            "num_request_ratio: gives inf sessions, which is not <= 10000000",
        ),
        ({**SYNTHETIC, "num_prefix_groups": 2**40}, f"num_prefix_groups: {2**40} is not <= {2**32 - 1}"),
        ({**TRACE, "trace_path": ""}, "trace_path: '' is empty"),
        ({"source_type": "trace", "trace_paths": ["a", ""]}, "trace_paths[1]: '' is empty"),
        ({**SYNTHETIC, "osl": 0}, "osl: 0 is not > 0"),
        ({**SYNTHETIC, "osl": "2"}, "osl: '2' is not an integer"),
        ({**SYNTHETIC, "request_count": 0}, "request_count: 0 is not > 0"),
        ({**SYNTHETIC, "request_count": 2.0}, "request_count: 2.0 is not an integer"),
        ({**SYNTHETIC, "concurrency": 0}, "concurrency: 0 is not > 0"),
        ({**SYNTHETIC, "concurrency": [4]}, "concurrency: [4] is not an integer"),
        ({**SYNTHETIC, "shared_prefix_ratio": 1.5}, "shared_prefix_ratio: 1.5 is not <= 1"),
        ({**SYNTHETIC, "shared_prefix_ratio": -0.1}, "shared_prefix_ratio: -0.1 is not >= 0"),
        ({**SYNTHETIC, "num_prefix_groups": -1}, "num_prefix_groups: -1 is not >= 0"),
        ({**SESSIONS, "turns_per_session": 0}, "turns_per_session: 0 is not > 0"),
        ({**SESSIONS, "inter_turn_delay_ms": -1}, "inter_turn_delay_ms: -1 is not >= 0"),
        ({**POISSON, "request_rate": 0}, "request_rate: 0 is not > 0"),
        ({**POISSON, "arrival_seed": -1}, "arrival_seed: -1 is not >= 0"),
        ({**CONSTANT, "arrival_interval_ms": 0}, "arrival_interval_ms: 0 is not > 0"),
        ({**RELATIVE, "num_request_ratio": 0}, "num_request_ratio: 0 is not > 0"),
        ({**SYNTHETIC, "max_sim_time_ms": -1}, "max_sim_time_ms: -1 is not >= 0"),
        (
            {**SYNTHETIC, "load_type": "concurency"},
            "load_type: 'concurency' is not one of 'concurrency', 'kv_capacity_fraction', 'poisson', "
            "'constant_rate'; did you mean 'concurrency'?",
        ),
        (
            {**TRACE, "trace_format": "moncake"},
            "trace_format: 'moncake' is not one of 'mooncake', 'mooncake-delta', 'dynamo', 'azure', "
            "'burstgpt', 'bailian', 'lengths', 'agentic_mooncake', 'applied_compute_agentic', "
            "'weka'; did you mean 'mooncake'?",
        ),
        ({**TRACE, "trace_block_size": 0}, "trace_block_size: 0 is not > 0"),
        ({**TRACE, "arrival_speedup_ratio": 0}, "arrival_speedup_ratio: 0 is not > 0"),
        ({**TRACE, "replay_concurrency": 0}, "replay_concurrency: 0 is not > 0"),
        ({**TRACE, "trace_paths": None}, "trace_paths: null is not a list"),
        ({**TRACE, "trace_paths": "x"}, "trace_paths: 'x' is not a list"),
        ({**TRACE, "trace_paths": ["x", 3]}, "trace_paths[1]: 3 is not a string"),
    ],
)
def test_bad_values_are_refused(fields, text):
    assert refused(_traffic, **fields) == f"traffic.{text}"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"source_type": "trace"}, "trace_path: trace traffic requires at least one path"),
        (_without(SYNTHETIC, "isl"), "isl: synthetic traffic requires isl"),
        (_without(SYNTHETIC, "osl"), "osl: synthetic traffic requires osl"),
        (
            _without(SYNTHETIC, "request_count"),
            "request_count: synthetic traffic requires request_count or num_request_ratio",
        ),
        (RELATIVE, "num_request_ratio: relative synthetic stop requires a concrete load"),
        (_without(POISSON, "request_rate"), "request_rate: poisson traffic requires request_rate"),
        (
            _without(CONSTANT, "arrival_interval_ms"),
            "request_rate: constant_rate traffic requires an interval or rate",
        ),
        (
            _without(KV, "kv_load_ratio"),
            "kv_load_ratio: kv_capacity_fraction requires one concrete ratio, got null",
        ),
        (
            {**KV, "kv_load_ratio": [0.0, 1.0]},
            "kv_load_ratio: kv_capacity_fraction requires one concrete ratio, got [0.0, 1.0]",
        ),
        (
            {**KV, "kv_load_ratio": True},
            "kv_load_ratio: kv_capacity_fraction requires one concrete ratio, got true",
        ),
        ({**KV, "kv_load_ratio": 0}, "kv_load_ratio: KV load ratio must be positive, got 0"),
        (
            {**KV, "kv_load_ratio": float("inf")},
            "kv_load_ratio: KV load ratio must be positive, got Infinity",
        ),
    ],
)
def test_what_a_source_needs_is_required(fields, text):
    assert refused(_traffic, **fields) == f"traffic.{text}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("load_type", "poisson"),
        ("isl", 8),
        ("osl", 8),
        ("request_count", 8),
        ("num_request_ratio", 8.0),
        ("turns_per_session", 4),
        ("shared_prefix_ratio", 0.5),
        ("num_prefix_groups", 1),
        ("inter_turn_delay_ms", 1.0),
        ("request_rate", 1.0),
        ("arrival_interval_ms", 1.0),
        ("arrival_seed", 7),
        ("concurrency", 8),
        ("kv_load_ratio", 0.5),
    ],
)
def test_synthetic_settings_have_no_effect_on_a_trace(name, value):
    shown = repr(value)
    assert refused(_traffic, **TRACE, **{name: value}) == (
        f"traffic.{name}: {shown} has no effect with source_type 'trace' (used by {BOTH_SYNTHETIC})"
    )


@pytest.mark.parametrize("source", [SYNTHETIC, SESSIONS])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("trace_path", "x"),
        ("trace_format", "dynamo"),
        ("trace_block_size", 16),
        ("arrival_speedup_ratio", 2.0),
        ("replay_concurrency", 3),
    ],
)
def test_trace_settings_have_no_effect_on_synthetic_load(source, name, value):
    assert refused(_traffic, **source, **{name: value}) == (
        f"traffic.{name}: {value!r} has no effect with source_type {source['source_type']!r} "
        "(used by source_type 'trace')"
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {**SYNTHETIC, "turns_per_session": 4},
            "turns_per_session: 4 has no effect with source_type 'synthetic' (used by source_type "
            "'synthetic-session')",
        ),
        (
            {**SYNTHETIC, "inter_turn_delay_ms": 4},
            "inter_turn_delay_ms: 4.0 has no effect on sessions of one turn (used by source_type "
            "'synthetic-session')",
        ),
        (
            {**SYNTHETIC, "request_rate": 4},
            "request_rate: 4.0 has no effect with load_type 'concurrency' (used by load_type 'poisson' and "
            "'constant_rate')",
        ),
        (
            {**SYNTHETIC, "arrival_interval_ms": 4},
            "arrival_interval_ms: 4.0 has no effect with load_type 'concurrency' (used by load_type "
            "'constant_rate')",
        ),
        (
            {**RELATIVE, "concurrency": 2, "request_rate": 4},
            "request_rate: 4.0 has no effect with load_type 'concurrency' (used by load_type 'poisson' and "
            "'constant_rate')",
        ),
        (
            {**CONSTANT, "arrival_seed": 7},
            "arrival_seed: 7 has no effect with load_type 'constant_rate' (used by load_type 'poisson')",
        ),
        (
            {**CONSTANT, "request_rate": 30},
            "arrival_interval_ms: 40.0 has no effect beside request_rate 30 (used by a payload without "
            "request_rate)",
        ),
        (
            {**POISSON, "arrival_interval_ms": 100},
            "arrival_interval_ms: 100.0 has no effect with load_type 'poisson' (used by load_type "
            "'constant_rate')",
        ),
        (
            {**POISSON, "kv_load_ratio": 0.5},
            "kv_load_ratio: 0.5 has no effect with load_type 'poisson' (used by load_type "
            "'kv_capacity_fraction')",
        ),
        (
            {**KV, "concurrency": 5},
            "concurrency: 5 has no effect with load_type 'kv_capacity_fraction' (used by load_type "
            "'concurrency')",
        ),
        (
            {**KV, "request_rate": 5},
            "request_rate: 5.0 has no effect with load_type 'kv_capacity_fraction' (used by load_type "
            "'poisson' and 'constant_rate')",
        ),
        (
            {**SYNTHETIC, "num_request_ratio": 2},
            "num_request_ratio: 2.0 has no effect beside request_count (used by a payload without "
            "request_count)",
        ),
        (
            {**TRACE, "trace_paths": ["a"], "trace_path": "b"},
            "trace_path: 'b' has no effect beside trace_paths (used by a payload without trace_paths)",
        ),
    ],
)
def test_settings_that_the_load_ignores_are_refused(fields, text):
    assert refused(_traffic, **fields) == f"traffic.{text}"


DEFAULTS = {
    "trace_paths": [],
    "trace_format": "mooncake",
    "trace_block_size": 512,
    "arrival_speedup_ratio": 1.0,
    "load_type": "concurrency",
    "turns_per_session": 1,
    "shared_prefix_ratio": 0.0,
    "num_prefix_groups": 0,
    "inter_turn_delay_ms": 0.0,
    "arrival_seed": 42,
}
NULLS = dict.fromkeys(set(RuntimeTraffic.model_fields) - {"source_type", "trace_paths"})


@pytest.mark.parametrize("source", [SYNTHETIC, SESSIONS, TRACE, POISSON, CONSTANT, KV])
def test_nulls_and_defaults_are_always_accepted(source):
    plain = _traffic(**source)
    assert _traffic(**{**NULLS, **source}) == plain
    spelled = _traffic(**{**DEFAULTS, **source})
    assert (spelled.source_type, spelled.load, spelled.paths) == (plain.source_type, plain.load, plain.paths)


@pytest.mark.parametrize(
    "fields",
    [
        {**RELATIVE, "request_rate": 4},
        {**RELATIVE, "arrival_interval_ms": 4},
        {**RELATIVE, "concurrency": 4},
        {**CONSTANT, "request_rate": 25.0},
        {**POISSON, "concurrency": 2, "arrival_seed": 7},
        {**TRACE, "trace_paths": ["t.jsonl"]},
        {**_without(KV, "request_count"), "num_request_ratio": 3},
    ],
)
def test_settings_that_act_are_accepted(fields):
    assert _traffic(**fields).source_type == fields["source_type"]
