"""Topology, pools, adapters, SLA and authored requests."""

import pytest

from aisimulate.config.payload import parse_payload

from .payloads import POOL, REQUEST, disaggregated, parse, rank, refused, spec


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (spec(version=2), "version: 2 is not 1 (the only version)"),
        (spec(version=True), "version: true is not an integer"),
        ({}, "topology: missing (required)"),
        (spec(topology={"kind": "aggregated"}), "topology.workers: missing (required)"),
        (
            spec(topology={"workers": POOL}),
            "topology: field 'kind' is missing (one of 'aggregated', 'disaggregated')",
        ),
        (
            spec(topology={"kind": "aggregated", "workers": {"initial_workers": 0}}),
            "topology.workers.initial_workers: 0 is not > 0",
        ),
        (
            spec(topology={"kind": "aggregated", "workers": {**POOL, "startup_delay_ms": -1}}),
            "topology.workers.startup_delay_ms: -1 is not >= 0",
        ),
        (
            spec(topology={"kind": "aggregated", "workers": POOL, "handoff_latency_ms": 1}),
            "topology.handoff_latency_ms: unknown field",
        ),
        (spec(max_sim_time_ms=-1), "max_sim_time_ms: -1 is not >= 0"),
        (spec(max_sim_time_ms="1"), "max_sim_time_ms: '1' is not a number"),
        (spec(max_in_flight=0), "max_in_flight: 0 is not > 0"),
        (spec(record_per_request="yes"), "record_per_request: 'yes' is not true or false"),
        (spec(record_per_request=None), "record_per_request: null is not true or false"),
        (spec(sla={"ttft_ms": 0.0}), "sla.ttft_ms: 0.0 is not > 0"),
        (spec(sla={"itl": 5}), "sla.itl: unknown field; did you mean 'itl_ms'?"),
        (spec(sla={"e2e_ms": 5, "itl_ms": 1}), "sla.e2e_ms: 5 may not be combined with itl_ms"),
        (spec(adapters={"placement": {}}), "adapters.placement.provider: missing (required)"),
        (spec(engine={"dp_size": 0}), "engine.dp_size: 0 is not > 0"),
        (
            spec(engine={"tensor_parallel_size": 2**32}),
            f"engine.tensor_parallel_size: {2**32} is not <= 65536",
        ),
        (spec(engine={"dp_size": 4097}), "engine.dp_size: 4097 is not <= 4096"),
        (
            spec(topology={"kind": "aggregated", "workers": {"initial_workers": 10**9}}),
            "topology.workers.initial_workers: 1000000000 is not <= 100000",
        ),
        (
            spec(
                topology={"kind": "aggregated", "workers": {"initial_workers": 25_000}},
                engine={"dp_size": 5},
            ),
            "topology.workers.initial_workers: 25000 times dp_size 5 is not <= 100000 (ranks of a pool)",
        ),
        (
            spec(
                topology={"kind": "disaggregated", "prefill": POOL, "decode": {"initial_workers": 100}},
                engine={"decode": {"dp_size": 1001}},
            ),
            "topology.decode.initial_workers: 100 times dp_size 1001 is not <= 100000 (ranks of a pool)",
        ),
        (spec(engine={"prefill": {}}), "engine.prefill: has no effect in an aggregated topology"),
        (
            rank(worker_type="decode"),
            "engine.rank.worker_type: 'decode' contradicts the topology (aggregated)",
        ),
        (
            disaggregated(decode={"rank": {"worker_type": "prefill"}}),
            "engine.decode.rank.worker_type: 'prefill' contradicts the topology (decode)",
        ),
        (
            disaggregated(prefill={"rank": {"block_size": 4}}, decode={"rank": {"block_size": 8}}),
            "engine: disaggregated replay needs matching prefill/decode block_size, got 4 and 8: "
            "blocks are handed over as they are",
        ),
        (
            disaggregated(decode={"rank": {"timing_mode": "fused"}}),
            "engine.decode.rank.timing_mode: 'fused' has nothing to fuse in a disaggregated topology: "
            "no worker mixes passes",
        ),
        (
            disaggregated(prefill={"rank": {"backend": "sglang"}}),
            "engine: disaggregated replay needs matching prefill/decode backend, got sglang and vllm: "
            "an engine hands KV blocks only to its own kind",
        ),
        (spec(requests=[{**REQUEST, "arrival_time_ms": -1}]), "requests[0].arrival_time_ms: -1 is not >= 0"),
        (
            spec(requests=[{**REQUEST, "arrival_time_ms": 1e13}]),
            f"requests[0].arrival_time_ms: 1{'0' * 13}.0 is not <= 9{'0' * 12}",
        ),
        (spec(requests=[REQUEST, {**REQUEST, "input_tokens": 0}]), "requests[1].input_tokens: 0 is not > 0"),
        (spec(requests=[{**REQUEST, "output_tokens": -1}]), "requests[0].output_tokens: -1 is not >= 0"),
        (
            spec(requests=[{**REQUEST, "input_token_ids": [1, 2**32]}]),
            f"requests[0].input_token_ids[1]: {2**32} is not <= {2**32 - 1}",
        ),
        (spec(requests=[{**REQUEST, "id": 7}]), "requests[0].id: 7 is not a string"),
        (spec(requests={}), "requests: {} is not a list"),
    ],
)
def test_bad_specs_are_refused(value, text):
    assert refused(parse, value) == f"spec.{text}"


def test_a_pool_may_repeat_the_stage_of_its_topology():
    stages = disaggregated(
        prefill={"rank": {"worker_type": "prefill"}}, decode={"rank": {"worker_type": "decode"}}
    )
    assert parse(stages).spec.stages == ("prefill", "decode")
    assert parse(rank(worker_type="aggregated")).spec.stages == (None,)


def test_unknown_keys_of_the_spec_and_of_requests_are_tolerated():
    request = {**REQUEST, "prefill_dp_rank": 3, "metadata": {"caller_tag": "x"}}
    parsed = parse_payload(spec(requests=[request], encoder={"workers": 3})).spec
    assert parsed.requests[0].metadata == {"caller_tag": "x"}
    assert not hasattr(parsed, "encoder")


def test_topology_defaults():
    topology = parse(disaggregated()).spec.topology
    assert (topology.handoff_latency_ms, topology.decode.startup_delay_ms) == (0.0, 0.0)
