"""KV-relative load and the capacity check of a candidate (spec 05 section 9, D6, D22)."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from aisimulate.spica import kv_load
from aisimulate.spica.kv_load import InfeasibleKVCapacity, check_kv_capacity, resolve_kv_load
from aisimulate.spica.parallel_enum import DisaggParallelConfig, ParallelShape, ReplicaParallelConfig

CASES = json.loads((Path(__file__).parents[1] / "data/search/kv_load_cases.json").read_text())["cases"]


def build(roles):
    """Build the parallel config and the sample of a case's roles; DP ranks stand for the whole width."""
    sample = {"model_name": "m", "hardware_sku": "s", "backend": "vllm", "context_length": 512}
    pools = {}
    for role, row in roles.items():
        shape = ParallelShape(1, row["attention_dp"], 1, row["attention_dp"], pp=1)
        pools[role] = ReplicaParallelConfig(shape, row["replicas"])
        sample[f"{role}_block_size"] = row["block_size"]
        sample[f"{role}_max_num_batched_tokens"] = {"agg": 8192, "prefill": 16384, "decode": 4096}[role]
        sample[f"{role}_max_num_seqs"] = 256
        sample[f"{role}_gpu_memory_utilization"] = {"agg": 0.9, "prefill": 0.8, "decode": 0.7}[role]
    config = pools["agg"] if "agg" in pools else DisaggParallelConfig(pools["prefill"], pools["decode"])
    return sample, config


@pytest.fixture
def estimates(monkeypatch):
    """Let a test say each role's per-rank tokens; the role is known by its token budget."""
    asked = []

    def install(tokens_by_role):
        budgets = {8192: "agg", 16384: "prefill", 4096: "decode"}

        def estimate(shape, **knobs):
            asked.append((shape, knobs))
            return tokens_by_role[budgets[knobs["max_num_tokens"]]]

        monkeypatch.setattr(kv_load, "estimate_kv_tokens", estimate)
        return asked

    return install


def workload(isl, osl):
    return SimpleNamespace(isl=isl, osl=osl)


def resolve(case):
    sample, config = build(case["roles"])
    load = workload(case["isl"], case["osl"])
    return resolve_kv_load(
        sample, workload=load, parallel_config=config, ratio=case["ratio"], backend_version="1.0"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_cases(case, estimates):
    estimates({role: row["per_rank_tokens"] for role, row in case["roles"].items()})
    expected = case["expected"]
    if "infeasible" in expected:
        with pytest.raises(InfeasibleKVCapacity, match=r"0 KV tokens cannot hold .* 150 tokens"):
            resolve(case)
        return
    result = resolve(case)
    assert result.role_capacity_tokens == expected["role_capacity_tokens"]
    assert result.concurrency_capacity == expected["concurrency_capacity"]
    assert result.concurrency == expected["concurrency"]
    assert list(result.sample_fields().items()) == list(expected["derived_fields"].items())


def test_the_product_is_a_plain_float_product_truncated(estimates):
    estimates({"agg": 100 * 150})
    roles = {"agg": {"block_size": 1, "attention_dp": 1, "replicas": 1}}
    assert resolve({"roles": roles, "isl": 100, "osl": 100, "ratio": 0.29}).concurrency == 28


def test_each_role_is_estimated_with_its_own_knobs(estimates):
    asked = estimates({"prefill": 100_000, "decode": 100_000})
    roles = {
        "prefill": {"block_size": 64, "attention_dp": 2, "replicas": 1},
        "decode": {"block_size": 64, "attention_dp": 4, "replicas": 1},
    }
    sample, config = build(roles)
    resolve_kv_load(
        sample, workload=workload(100, 100), parallel_config=config, ratio=1.0, backend_version="9.9"
    )
    shared = {
        "model_name": "m",
        "hardware_sku": "s",
        "backend": "vllm",
        "backend_version": "9.9",
        "allow_model_download": False,
    }
    assert [(shape.dp, knobs) for shape, knobs in asked] == [
        (2, shared | {"max_num_tokens": 16384, "memory_fraction": 0.8}),
        (4, shared | {"max_num_tokens": 4096, "memory_fraction": 0.7}),
    ]


def test_no_budget_and_no_lengths(estimates):
    estimates({"agg": None})
    roles = {"agg": {"block_size": 64, "attention_dp": 1, "replicas": 1}}
    with pytest.raises(InfeasibleKVCapacity, match="agg role has no memory left"):
        resolve({"roles": roles, "isl": 100, "osl": 100, "ratio": 0.5})
    with pytest.raises(ValueError, match=r"workload\.isl and workload\.osl"):
        resolve({"roles": roles, "isl": None, "osl": 100, "ratio": 0.5})


DISAGG = {
    "prefill": {"block_size": 64, "attention_dp": 1, "replicas": 4},
    "decode": {"block_size": 64, "attention_dp": 1, "replicas": 4},
}


def check(load, roles=DISAGG, context=512):
    sample, config = build(roles)
    sample["context_length"] = context
    check_kv_capacity(sample, workload=load, parallel_config=config, backend_version="1.0")


def test_check_accepts_what_fits_exactly(estimates):
    estimates({"prefill": 1024, "decode": 1536})
    check(workload(1024, 512))


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ({"prefill": 1023, "decode": 9999}, "prefill rank's 960 .* one prompt of 1024"),
        ({"prefill": 1024, "decode": 1535}, "decode rank's 1472 .* one request of 1536"),
        ({"prefill": 512, "decode": 9999}, "prefill rank's 512 .* a sequence of 512"),
        ({"prefill": 9999, "decode": None}, "decode role has no memory left"),
    ],
)
def test_check_refuses_what_does_not(tokens, message, estimates):
    """Whole blocks of one rank must hold a prompt or a request; replicas do not help (D22)."""
    estimates(tokens)
    with pytest.raises(InfeasibleKVCapacity, match=message):
        check(workload(1024, 512))


def test_check_of_a_trace_looks_at_the_sequence_length_only(estimates):
    estimates({"prefill": 513, "decode": 513})
    check(workload(None, None))
    with pytest.raises(InfeasibleKVCapacity, match="sequence of 600 tokens"):
        check(workload(None, None), context=600)


def test_check_without_context_length_takes_the_models_maximum(estimates, monkeypatch):
    estimates({"prefill": 2000, "decode": 2000})
    lengths = {None: 2000, 512: 512}
    monkeypatch.setattr(kv_load, "max_sequence_tokens", lambda _, context, *rest: lengths[context])
    check(workload(None, None))
    with pytest.raises(InfeasibleKVCapacity, match="sequence of 2000 tokens"):
        check(workload(None, None), context=None)


def test_check_is_skipped_without_an_estimator(estimates, monkeypatch):
    asked = estimates({"prefill": None, "decode": None})
    monkeypatch.setattr(kv_load, "estimator_missing_reason", lambda: "no module")
    check(workload(1024, 512))
    assert asked == []
