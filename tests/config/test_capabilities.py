"""What this version simulates, what comes later, and what nobody knows."""

from dataclasses import replace

import pytest

from aisimulate.core.errors import UnsupportedError
from aisimulate.replay.capabilities import CURRENT, require_supported

from .payloads import TRACE, disaggregated, parse, rank, refused, spec

EVERYTHING = replace(
    CURRENT,
    backends=frozenset({"vllm", "sglang", "trtllm"}),
    topologies=frozenset({"aggregated", "disaggregated"}),
    placements=frozenset({"round_robin", "kv_router"}),
    scalings=frozenset({"none", "planner"}),
    trace_formats=frozenset({"mooncake", "weka"}),
    tiers=frozenset({"native_host_offload", "g3_offload", "state_cache"}),
    speculation=True,
    prefill_intervals=True,
    decode_intervals=True,
    kv_events=True,
    routed_speculation=True,
    scaled_speculation=True,
    scaled_pair_backends=frozenset({"sglang", "trtllm", "vllm"}),
)
G2 = {"native_host_offload": {"num_host_blocks": 1}, "kv_cache_bytes_per_token": 1}

LATER = [
    (
        rank(emit_kv_events=True),
        "spec.engine.rank.emit_kv_events: true would change nothing: a replay writes no cache events "
        "(supported: false)",
    ),
]
UNKNOWN = [
    (
        spec(adapters={"placement": {"provider": "random"}}),
        "spec.adapters.placement.provider: engine composition requires round_robin or kv_router "
        'placement, got "random"',
    ),
    (
        spec(adapters={"scaling": {"provider": "hpa"}}),
        'spec.adapters.scaling.provider: engine composition does not provide scaling, got "hpa"',
    ),
    (
        spec(adapters={"placement": {"provider": "round_robin", "config": {"a": 1}}}),
        'spec.adapters.placement.config: {"a": 1} has no effect: round_robin has no settings',
    ),
    (
        spec(adapters={"scaling": {"provider": "none", "config": 3}}),
        "spec.adapters.scaling.config: 3 has no effect without scaling",
    ),
]


@pytest.mark.parametrize(("value", "text"), LATER)
def test_what_comes_later_is_not_supported_yet(value, text):
    execution = parse(value)
    assert refused(require_supported, execution.spec) == text
    with pytest.raises(UnsupportedError):
        require_supported(execution.spec)


@pytest.mark.parametrize(("value", "text"), LATER)
def test_a_wider_capability_set_lets_it_through(value, text):
    require_supported(parse(value).spec, capabilities=EVERYTHING)


@pytest.mark.parametrize(("value", "text"), UNKNOWN)
def test_what_nobody_knows_is_wrong_whatever_the_capabilities(value, text):
    for capabilities in (CURRENT, EVERYTHING):
        assert refused(require_supported, parse(value).spec, capabilities=capabilities) == text
    with pytest.raises(Exception) as caught:
        require_supported(parse(value).spec)
    assert not isinstance(caught.value, UnsupportedError)


@pytest.mark.parametrize("config", [None, {}])
def test_the_default_composition_is_supported(config):
    adapters = {"placement": {"provider": "round_robin", "config": config}, "scaling": {"provider": "none"}}
    execution = parse(spec(adapters=adapters), TRACE)
    require_supported(execution.spec, execution.traffic)


def test_a_version_may_read_fewer_trace_formats():
    execution = parse(spec(), {**TRACE, "trace_format": "weka"})
    require_supported(execution.spec, execution.traffic)
    fewer = replace(CURRENT, trace_formats=frozenset({"mooncake"}))
    text = refused(require_supported, execution.spec, execution.traffic, fewer)
    assert text == ("traffic.trace_format: trace format 'weka' is not supported yet (supported: mooncake)")


def test_both_roles_are_checked():
    value = disaggregated(decode={"rank": {"emit_kv_events": True}})
    two_stages = replace(CURRENT, topologies=EVERYTHING.topologies)
    assert refused(require_supported, parse(value).spec, capabilities=two_stages) == (
        "spec.engine.decode.rank.emit_kv_events: true would change nothing: a replay writes no cache events "
        "(supported: false)"
    )
