"""One forward for prefill chunks and decoding requests, against AI Configurator's own parts of it."""

from __future__ import annotations

import pickle

import pytest

from aisimulate.core.errors import TimingError
from aisimulate.timing.aic import AicTiming, EngineSpecBlob, compile_engine_spec, engine_key
from aisimulate.timing.aic.engine import load_engine
from timing import contract


def qwen() -> EngineSpecBlob:
    return compile_engine_spec(engine_key("Qwen/Qwen3-32B-FP8", "h200_sxm", "vllm", tp=2))


def glm() -> EngineSpecBlob:
    return compile_engine_spec(
        engine_key("zai-org/GLM-5-FP8", "b200_sxm", "sglang", attention_dp=8, moe_tp=8, moe_ep=1)
    )


def deepseek() -> EngineSpecBlob:
    return compile_engine_spec(
        engine_key("deepseek-ai/DeepSeek-V3", "h200_sxm", "vllm", tp=8, moe_tp=1, moe_ep=8)
    )


def timer(blob, nextn=0, exact=True, speedups=(1.0, 1.0)):
    return AicTiming(blob, nextn, exact=exact).timer(0, *speedups)


@pytest.mark.parametrize("blob", [qwen, glm, deepseek])
@pytest.mark.parametrize(("batch", "isl", "prefix"), [(1, 2048, 0), (1, 4096, 2048), (1, 2147, 100)])
def test_a_chunk_alone_lasts_what_its_prefill_does(blob, batch, isl, prefix):
    clock = timer(blob())
    assert abs(clock.fused_ns([(prefix, isl)] * batch, 0, 0) - clock.prefill_ns(batch, isl, prefix)) <= 1


@pytest.mark.parametrize("blob", [qwen, glm, deepseek])
def test_equal_chunks_last_what_their_batch_does(blob):
    clock = timer(blob())
    # But for the logits of the last tokens, of which AI Configurator's mixed step counts one row.
    assert clock.fused_ns([(512, 1024)] * 3, 0, 0) == pytest.approx(clock.prefill_ns(3, 1024, 512), rel=0.002)


def test_unequal_chunks_cost_more_than_their_means():
    clock = timer(qwen())
    spans = [(0, 7300)] + [(0, 100)] * 7
    mean = sum(end for _, end in spans) // len(spans)
    assert clock.fused_ns(spans, 0, 0) > 1.05 * clock.prefill_ns(len(spans), mean, 0)


@pytest.mark.parametrize("blob", [qwen, glm])
def test_a_mixed_pass_is_the_mixed_step(blob):
    engine, clock = load_engine(blob()), timer(blob())
    for chunk, batch, context in ((2048, 64, 4096), (512, 1, 777), (8000, 100, 2048)):
        shared, prefill = engine.mixed_step_breakdown(chunk, batch, chunk, 1)[1:3]
        decode = engine.mixed_step_breakdown(chunk, batch, context, 1)[3]
        fused = clock.fused_ns([(0, chunk)], batch, batch * context) / 1e6
        assert fused == pytest.approx(shared + prefill + decode, abs=3e-6)
    total = engine.mixed_step_latency(2048, 64, 2048, 1)
    assert clock.fused_ns([(0, 2048)], 64, 64 * 2048) / 1e6 == pytest.approx(total, abs=3e-6)


def test_attention_measured_as_a_block_is_not_forgotten():
    """AI Configurator's mixed step of such a model does not grow with the context of its decoders."""
    engine, clock = load_engine(deepseek()), timer(deepseek())
    steps = [engine.mixed_step_latency(2048, 64, 2048, 1), engine.mixed_step_latency(2048, 64, 2048, 60_000)]
    assert steps[0] == steps[1]
    short, long = (clock.fused_ns([(0, 2048)], 64, 64 * context) for context in (1024, 32_768))
    grown = clock.decode_ns(64, 64 * 32_768) - clock.decode_ns(64, 64 * 1024)
    assert long - short == pytest.approx(grown, rel=1e-6)


@pytest.mark.parametrize("blob", [qwen, glm, deepseek])
def test_one_forward_is_shorter_than_two(blob):
    clock = timer(blob())
    for chunk, batch, context in ((2048, 64, 4096), (512, 1, 777), (7000, 128, 9000)):
        both = clock.prefill_ns(1, chunk, 0) + clock.decode_ns(batch, batch * context)
        assert clock.prefill_ns(1, chunk, 0) < clock.fused_ns([(0, chunk)], batch, batch * context) < both


@pytest.mark.parametrize("blob", [qwen, glm, deepseek])
@pytest.mark.parametrize("exact", [True, False])
def test_contract(blob, exact):
    contract.check_fused(timer(blob(), exact=exact), 7, 7 * 3000)


def test_drafts_bring_tokens_and_layers():
    blob = glm()
    plain, drafting = timer(blob), timer(blob, nextn=1)
    layers = plain.decode_ns(16, 16 * 2000) / blob.layers
    verified = plain.fused_ns([(0, 1000)], 16, 16 * 2000)
    assert drafting.fused_ns([(0, 1000)], 8, 8 * 2000) == pytest.approx(verified + layers, abs=3)


def test_speedups_divide_their_parts():
    plain, fast = timer(qwen()), timer(qwen(), speedups=(2.0, 2.0))
    assert fast.fused_ns([(0, 999)], 7, 7000) == pytest.approx(plain.fused_ns([(0, 999)], 7, 7000) / 2, abs=2)
    decode = timer(qwen(), speedups=(1.0, 4.0))
    saved = plain.fused_ns([(0, 999)], 7, 7000) - decode.fused_ns([(0, 999)], 7, 7000)
    attention = load_engine(qwen()).mixed_step_breakdown(999, 7, 1000, 1)[3] * 1e6
    assert saved == pytest.approx(attention * 3 / 4, abs=2)


def test_interpolation_is_along_context_only():
    exact, rows = timer(qwen()), timer(qwen(), exact=False)
    for batch, context in ((1, 1000), (37, 3333), (256, 9999)):
        wanted = exact.fused_ns([(100, 612)], batch, batch * context)
        assert rows.fused_ns([(100, 612)], batch, batch * context) == pytest.approx(wanted, rel=0.002)


def test_another_process_gets_the_same():
    clock = timer(qwen())
    again = pickle.loads(pickle.dumps(clock))
    assert again.fused_ns([(0, 64), (5, 9)], 3, 300) == clock.fused_ns([(0, 64), (5, 9)], 3, 300)


def test_sizes_beyond_reason_are_refused():
    with pytest.raises(TimingError, match="outside 1"):
        timer(qwen()).fused_ns([(0, 1 << 25)], 1, 10)
