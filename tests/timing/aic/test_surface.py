"""Pass times against AI Configurator itself."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisimulate.core.errors import InputError, TimingError
from aisimulate.core.units import duration_ns, scaled_ns
from aisimulate.timing.aic import AicTiming, EngineSpecBlob, compile_engine_spec, engine_key
from aisimulate.timing.aic.engine import load_engine
from aisimulate.timing.aic.surface import MAX_BATCH, MAX_CONTEXT_TOKENS, AicTimer, ExactAicTimer, aic_timer
from timing import contract

if TYPE_CHECKING:
    from collections.abc import Callable


def qwen() -> EngineSpecBlob:
    return compile_engine_spec(engine_key("Qwen/Qwen3-32B-FP8", "h200_sxm", "vllm", tp=2))


def qwen_sglang() -> EngineSpecBlob:
    return compile_engine_spec(engine_key("Qwen/Qwen3-32B-FP8", "h200_sxm", "sglang", tp=2))


def glm_dtp8() -> EngineSpecBlob:
    return compile_engine_spec(
        engine_key("zai-org/GLM-5-FP8", "b200_sxm", "sglang", tp=1, attention_dp=8, moe_tp=8, moe_ep=1)
    )


def minimax_tep4() -> EngineSpecBlob:
    return compile_engine_spec(
        engine_key("MiniMaxAI/MiniMax-M2.5", "b200_sxm", "vllm", tp=4, moe_tp=1, moe_ep=4)
    )


ENGINES = [qwen, qwen_sglang, glm_dtp8, minimax_tep4]


@pytest.mark.parametrize(
    ("engine", "prefill_ms", "decode_ms"),
    [
        (qwen, 165.043, 32.970),
        (qwen_sglang, 150.478, 15.250),
        (glm_dtp8, 520.196, 47.997),
        (minimax_tep4, 86.283, 34.888),
    ],
)
def test_golden_values(engine: Callable[[], EngineSpecBlob], prefill_ms: float, decode_ms: float) -> None:
    timer = AicTiming(engine()).timer(0, 1.0, 1.0)
    assert timer.prefill_ns(1, 4096, 0) / 1e6 == pytest.approx(prefill_ms, abs=0.0006)
    assert timer.decode_ns(64, 64 * 4096) / 1e6 == pytest.approx(decode_ms, abs=0.0006)


@pytest.mark.parametrize(("engine", "worst"), [(qwen, 0.006), (glm_dtp8, 0.041), (minimax_tep4, 0.006)])
def test_interpolated_decode_is_close(engine: Callable[[], EngineSpecBlob], worst: float) -> None:
    """Mean error within 0.03 %; the largest at the edge of the measured grid (spec 04 section 5)."""
    direct, timer, rng = load_engine(engine()), AicTiming(engine()).timer(0, 1.0, 1.0), random.Random(5)
    errors = []
    for _ in range(1500):
        batch, context = rng.randint(1, 512), round(32 * 1024 ** rng.random())
        truth = direct.predict_decode_latency(batch, context, 2) * 1e6
        errors.append(abs(timer.decode_ns(batch, batch * context + rng.randrange(batch)) - truth) / truth)
    assert sum(errors) / len(errors) <= 0.0003
    assert max(errors) <= worst


@pytest.mark.parametrize("engine", ENGINES)
def test_prefill_is_exact(engine: Callable[[], EngineSpecBlob]) -> None:
    direct, timer, rng = load_engine(engine()), AicTiming(engine()).timer(0, 1.0, 1.0), random.Random(6)
    for _ in range(50):
        batch, prefix = rng.randint(1, 4), rng.choice([0, 1, rng.randint(0, 8000)])
        isl = prefix + rng.randint(1, 8192)
        assert timer.prefill_ns(batch, isl, prefix) == duration_ns(
            direct.predict_prefill_latency(batch, isl, prefix)
        )


def test_speedups_divide_what_is_rounded() -> None:
    plain, fast = (AicTiming(qwen()).timer(0, a, b) for a, b in ((1.0, 0.0), (3.0, 7.0)))
    assert fast.prefill_ns(2, 999, 5) == scaled_ns(plain.prefill_ns(2, 999, 5), 3.0)
    assert fast.decode_ns(4, 4 * 1024) == scaled_ns(plain.decode_ns(4, 4 * 1024), 7.0)


@pytest.mark.parametrize("nextn", [1, 3, 5])
def test_draft_tokens_by_identity(nextn: int) -> None:
    """One engine compiled without drafts prices every draft depth."""
    from aiconfigurator_core import AicEngine
    from aiconfigurator_core.sdk.engine import compile_engine

    spec = compile_engine("Qwen/Qwen3-32B-FP8", "h200_sxm", "vllm", "0.24.0", tp_size=2, nextn=nextn)
    direct = AicEngine.from_spec(spec)
    for kind in (False, True):
        timer = AicTiming(qwen(), nextn=nextn, exact=kind).timer(0, 1.0, 1.0)
        for batch, context in ((1, 512), (7, 4096), (100, 1536)):
            expected = duration_ns(direct.predict_decode_latency(batch, context, 2))
            assert abs(timer.decode_ns(batch, batch * context) - expected) <= 1
        assert timer.prefill_ns(1, 100, 0) == duration_ns(direct.predict_prefill_latency(1, 100, 0))


def test_exact_asks_for_every_context() -> None:
    direct, timer = load_engine(qwen()), AicTiming(qwen(), exact=True).timer(0, 1.0, 1.0)
    assert isinstance(timer, ExactAicTimer)
    expected = [duration_ns(direct.predict_decode_latency(3, context, 2)) for context in range(1001, 1031)]
    assert timer.durations_ns(3, 3 * 1001 + 2, 30) == expected


@settings(deadline=None, max_examples=60)
@given(contract.runs(max_batch=6, max_passes=300), st.floats(0, 1.1), st.sampled_from([1.0, 0.3, 1e5, 1e8]))
def test_contract(run: contract.Run, share: float, speedup: float) -> None:
    timer = aic_timer(qwen(), 0, False, 1.0, speedup)
    contract.check_run(timer, run)
    contract.check_cut(timer, run, int(share * timer.run_ns(*run)))


@settings(deadline=None, max_examples=10)
@given(contract.runs(max_batch=2, max_context=2_000, max_passes=40), st.floats(0, 1.1))
def test_contract_when_exact(run: contract.Run, share: float) -> None:
    timer = aic_timer(qwen(), 1, True, 1.0, 1.0)
    contract.check_run(timer, run)
    contract.check_cut(timer, run, int(share * timer.run_ns(*run)))
    contract.check_tally(timer, [run, run])


@settings(deadline=None, max_examples=30)
@given(st.lists(contract.runs(max_batch=6, max_passes=50), max_size=5))
def test_expansion(many: list[contract.Run]) -> None:
    contract.check_tally(aic_timer(qwen(), 0, False, 1.0, 1.0), many)


def test_expansion_of_many_blocks() -> None:
    rng = random.Random(7)
    many = [contract.Run(2, 2 * rng.randint(1, 5000), rng.randint(0, 900)) for _ in range(200)]
    contract.check_tally(aic_timer(qwen(), 0, False, 1.0, 1.0), many)


def test_cuts_around_every_pass_end() -> None:
    for speedup in (1.0, 1e7):
        contract.check_cuts(aic_timer(qwen(), 0, False, 1.0, speedup), contract.Run(3, 3 * 1000 + 1, 90))


def test_prefill_wrapper_and_pickle() -> None:
    for exact in (False, True):
        timer = aic_timer(qwen(), 0, exact, 1.0, 2.0)
        contract.check_prefill_wrapper(timer)
        contract.check_pickle(timer, contract.Run(2, 2000, 30))
        assert pickle.loads(pickle.dumps(timer)) is timer


def test_a_second_replay_reuses_the_rows() -> None:
    first = AicTiming(qwen()).timer(1000, 1.0, 1.0)
    assert AicTiming(pickle.loads(pickle.dumps(qwen()))).timer(2000, 1.0, 1.0) is first
    assert AicTiming(engine_key("Qwen/Qwen3-32B-FP8", "h200_sxm", "vllm", tp=2)).timer(0, 1.0, 1.0) is first


def test_only_visited_cells_are_priced() -> None:
    timer = AicTimer(qwen(), 0, 1.0, 1.0)
    timer.run_ns(5, 5 * 1000, 100)
    timer.prefill_ns(1, 100, 0)
    timer.prefill_ns(1, 100, 0)
    assert {batch: len(row) for batch, row in timer._rows.items()} == {5: 2}
    assert len(timer._prefills) == 1


@pytest.mark.parametrize(
    ("batch", "context"), [(1, MAX_CONTEXT_TOKENS), (MAX_BATCH + 1, 100), (1, 10 * MAX_CONTEXT_TOKENS)]
)
def test_absurd_sizes_are_refused(batch: int, context: int) -> None:
    timer = AicTimer(qwen(), 0, 1.0, 1.0)
    with pytest.raises(TimingError, match="is outside"):
        timer.decode_ns(batch, batch * context)
    with pytest.raises(TimingError, match="is outside"):
        timer.prefill_ns(batch, context + 1, 0)


@pytest.mark.parametrize("nextn", [-1, 6, 1.0, True])
def test_draft_depth_is_bounded(nextn: int) -> None:
    with pytest.raises(InputError, match="AIC nextn"):
        AicTiming(qwen(), nextn=nextn)


def test_the_spec_is_the_same_for_the_same_key() -> None:
    again = compile_engine_spec.__wrapped__(qwen().key)
    assert again == qwen()
    assert again.literal == "0.24.0"
    assert len(again.spec) < 4000


WORKER = """
import pickle, sys
timing = pickle.load(sys.stdin.buffer)
timer = timing.timer(0, 1.0, 1.0)
print(timer.prefill_ns(1, 4096, 0), timer.run_ns(64, 64 * 4096, 50))
loaded = [name for name in ("aiconfigurator_core.sdk", "pandas", "numpy", "yaml") if name in sys.modules]
print(loaded)
"""


def test_a_worker_process_needs_only_the_compiled_engine() -> None:
    timing = AicTiming(qwen())
    done = subprocess.run(
        [sys.executable, "-c", WORKER], input=pickle.dumps(timing), capture_output=True, check=True
    )
    timer = timing.timer(0, 1.0, 1.0)
    prices, loaded = done.stdout.decode().splitlines()
    assert prices == f"{timer.prefill_ns(1, 4096, 0)} {timer.run_ns(64, 64 * 4096, 50)}"
    assert loaded == "[]"


def test_importing_the_providers_imports_nothing_heavy() -> None:
    code = (
        "import sys, aisimulate.timing, aisimulate.timing.aic\n"
        "print([m for m in ('aiconfigurator_core', 'numpy', 'pandas', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[]"
