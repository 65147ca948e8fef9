"""The public performance model against figures of aiconfigurator-core 0.12.0 (spec 04 sections 1 and 6)."""

from __future__ import annotations

import pytest

from aisimulate.core.errors import InputError, TimingError
from aisimulate.perf import PerfModel
from aisimulate.perf.quality import data_quality
from aisimulate.timing.aic.operations import OperationTime
from aisimulate.timing.aic.tables import Axis


def qwen(**settings: object) -> PerfModel:
    return PerfModel(**{"model": "Qwen/Qwen3-32B-FP8", "system": "h200_sxm", "tp": 2, **settings})


def glm(**settings: object) -> PerfModel:
    shape = {"attention_dp": 8, "moe_tp_size": 8, "moe_ep_size": 1}
    return PerfModel(model="zai-org/GLM-5-FP8", system="b200_sxm", backend="sglang", **shape, **settings)


def test_latencies_are_the_golden_ones():
    assert qwen().prefill(4096).latency_ms == pytest.approx(165.043, abs=0.0006)
    assert qwen().prefill(4096, prefix=2048).latency_ms == pytest.approx(97.68, abs=0.006)
    assert qwen().decode(4096, batch=64).latency_ms == pytest.approx(32.970, abs=0.0006)
    assert glm().decode(4096, batch=64).latency_ms == pytest.approx(47.997, abs=0.0006)


def test_a_mixed_pass_is_told_in_both_ways():
    mixed = qwen().mixed(2048, 4096, batch=64)
    assert mixed.fused_ms == pytest.approx(100.307, abs=0.0006)
    assert mixed.additive_ms == pytest.approx(122.595, abs=0.0006)


@pytest.mark.parametrize("model", [qwen, glm])
def test_the_operations_sum_up_to_the_latency(model):
    for latency in (model().prefill(3000, batch=3, prefix=700), model().decode(777, batch=5)):
        assert sum(item.ms for item in latency.operations) == pytest.approx(latency.latency_ms, abs=1e-6)
        assert {item.source for item in latency.operations} <= {"measured", "formula", "mixed"}
        assert [item.name for item in latency.operations if item.is_attention]


def test_drafts_are_verified_along():
    plain, drafting = glm(), glm(nextn=2)
    layers = 78
    assert drafting.decode(4096, batch=8).latency_ms == pytest.approx(
        plain.decode(4096, batch=24).latency_ms * (layers + 2) / layers, abs=1e-5
    )


def test_capacity_and_what_fills_the_memory():
    capacity = qwen().capacity()
    assert (capacity.tokens, capacity.blocks, capacity.block_size) == (1_741_181, 27_205, 64)
    assert capacity.kv_bytes_per_token == 65_536
    parts = ("weights", "activations", "runtime", "communication", "kv", "unused")
    assert sum(getattr(capacity, f"{part}_bytes") for part in parts) == capacity.capacity_bytes
    assert capacity.unused_bytes == pytest.approx(0.1 * capacity.capacity_bytes, abs=2)
    assert qwen().capacity(max_num_batched_tokens=65_536).tokens == 1_647_997
    assert qwen(gpu_memory_utilization=0.5).capacity().tokens < capacity.tokens
    assert qwen(kv_block_size=100).capacity().blocks == 17_411
    assert qwen(kv_block_size=100).capacity(block_size=1000).blocks == 1_741


def test_capacity_counts_the_ranks_of_a_worker():
    capacity = glm(mem_fraction_static=0.9).capacity(block_size=64)
    assert (capacity.tokens, capacity.ranks) == (197_909, 8)
    assert capacity.worker_tokens == 197_909 // 64 * 64 * 8


def test_provenance_names_version_tables_and_dtypes():
    found = qwen().provenance()
    assert (found.backend_version, found.slot) == ("0.24.0", "current")
    assert found.slots == {"current": "0.24.0", "next": "0.27.0"}
    assert found.dtypes["kv_cache_dtype"] == "fp8"
    own = {table.table for table in found.tables if table.origin == "own"}
    assert own == {"gemm", "context_attention", "generation_attention", "custom_allreduce"}
    assert {table.version for table in found.tables if table.origin == "fallback"} == {
        "0.14.0",
        "0.18.0",
        "0.19.0",
    }
    assert any("not physical" in advisory for advisory in found.advisories)
    assert qwen(backend_version="next").provenance().slot == "next"
    one_gpu = PerfModel(model="Qwen/Qwen3-0.6B", system="h200_sxm").provenance()
    assert "custom_allreduce" not in {table.table for table in one_gpu.tables}, "nothing to reduce"


def test_data_of_another_backend_are_called_transferred():
    shape = {"tp": 8, "moe_tp_size": 1, "moe_ep_size": 8}
    found = PerfModel(model="deepseek-ai/DeepSeek-V3", system="h200_sxm", **shape).provenance()
    others = {(table.framework, table.origin) for table in found.tables if table.framework != "vllm"}
    assert others == {("trtllm", "transferred")}
    assert {"moe", "mla_context_module", "mla_generation_module"} <= {table.table for table in found.tables}


def test_the_origin_of_a_time_follows_the_measured_grid():
    model = qwen()
    # The tables hold powers of two and their sums with one; decode is priced one token further.
    assert model.prefill(4096).data.origin == "measured"
    assert model.prefill(4095).data.origin == "interpolated"
    assert model.decode(4095, batch=64).data.origin == "measured"
    assert model.decode(4096, batch=64).data.origin == "interpolated"
    far = model.decode(500_000, batch=64).data
    assert far.origin == "extrapolated"
    assert far.beyond == ("generation_attention: length 500001 outside 2..131072",)
    many = model.prefill(4096, batch=64).data
    assert many.beyond == ("gemm: tokens 262144 outside 1..32768",)


def test_experts_see_the_tokens_of_all_ranks():
    model = glm()
    assert model.prefill(1024).data.beyond == ()
    assert model.prefill(4096).data.beyond == ("moe: tokens 32768 outside 1..16384",)


def test_quality_of_made_up_axes():
    axes = (Axis("gemm", "tokens", (1, 2, 8)), Axis("moe", "tokens", (1, 64)))
    operations = [OperationTime("a", 3.0, "measured"), OperationTime("b", 1.0, "formula")]

    def judge(tokens: int, transfer: str | None = None, experts: int = 64):
        return data_quality(axes, {"tokens": tokens}, operations, transfer, experts)

    assert (judge(2).origin, judge(2).formula_share) == ("measured", 0.25)
    assert judge(3).origin == "interpolated"
    assert judge(2, experts=63).origin == "interpolated"
    assert judge(9).beyond == ("gemm: tokens 9 outside 1..8",)
    assert (judge(9, "xshape").origin, judge(9, "xshape").transfer) == ("transferred", "xshape")
    assert data_quality((Axis("gemm", "tokens", ()),), {"tokens": 1}, [], None, 1).origin == "extrapolated"


def test_settings_that_cannot_act_are_named():
    assert qwen(moe_dtype="fp8").notes == (
        "moe_dtype: no effect on Qwen/Qwen3-32B-FP8, which has no experts",
    )
    assert qwen().notes == ()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tpp": 2}, "tpp: unknown field; did you mean 'tp'?"),
        ({"system": "h200_sx"}, "did you mean 'h200_sxm'?"),
        ({"backend": "vlm"}, "did you mean 'vllm'?"),
        ({"backend_version": "nxt"}, "did you mean 'next'?"),
        ({"gemm_dtype": "fp9"}, "did you mean 'fp8'?"),
        ({"tp": True}, "tp: true is not an integer"),
        ({"mem_fraction_static": 0.5}, "mem_fraction_static: no effect on vllm"),
        ({"gpu_memory_utilization": 1.5}, "between 0 and 1"),
        ({"moe_tp_size": 2}, "must be configured together"),
        ({"model": "Qwen/Qwen3-32b-fp8"}, "did you mean 'Qwen/Qwen3-32B-FP8'?"),
    ],
)
def test_bad_settings_are_one_line(settings, words):
    with pytest.raises(InputError) as info:
        qwen(**settings)
    assert words in str(info.value)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (lambda model: model.prefill(0), "isl: 0 is not"),
        (lambda model: model.prefill(64, prefix=64), "prefix: 64 is not a whole number from 0 to 63"),
        (lambda model: model.prefill(64, batch=0), "batch: 0 is not"),
        (lambda model: model.prefill(64, batch=2.0), "batch: 2.0 is not"),
        (lambda model: model.decode(1 << 25), "context: 33554432 is not"),
        (lambda model: model.decode(1, batch=10**7), "batch: 10000000 is not"),
        (lambda model: model.capacity(block_size=0), "block_size: 0 is not"),
        (lambda model: model.capacity(max_num_batched_tokens=0), "max_num_batched_tokens: 0 is not"),
    ],
)
def test_questions_outside_their_range_are_one_line(question, words):
    with pytest.raises(InputError) as info:
        question(qwen())
    assert words in str(info.value)


def test_an_engine_that_does_not_fit_still_has_times():
    model = PerfModel(model="meta-llama/Meta-Llama-3.1-70B", system="h100_sxm")
    with pytest.raises(TimingError, match="no KV budget"):
        model.capacity()
    assert model.decode(1024).latency_ms > 0
