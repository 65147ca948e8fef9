from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisimulate.timing import FixedTiming, LinearTiming, PolynomialTiming, ScaledTiming
from aisimulate.timing.overhead import OverheadTimer
from timing import contract

INNER = [
    FixedTiming(20.5, 7.25),
    PolynomialTiming(),
    LinearTiming(4.5, 0.0625, 0.031, 0.00013, 0.0125),
    ScaledTiming(PolynomialTiming(), 1.5, 1.25, half=True),
]
RUN = contract.Run(3, 300, 50)
# Also longer than a prefill; drawn as a small number, because hypothesis prefers those.
OVERHEADS_NS = st.integers(0, 1000).map(lambda number: 1_000_003 * number)


@settings(deadline=None)
@given(contract.runs(), st.sampled_from(INNER), OVERHEADS_NS, st.floats(0, 1.2))
def test_contract(run: contract.Run, inner, overhead_ns: int, share: float) -> None:
    plain = inner.timer(50_000, 1.0, 1.0)
    timer = OverheadTimer(plain, overhead_ns)
    contract.check_run(timer, run)
    contract.check_rises(timer, run, run.passes)
    assert timer.rises == plain.rises
    contract.check_cut(timer, run, int(share * timer.run_ns(*run)))
    contract.check_tally(timer, [run])
    contract.check_prefill_wrapper(timer)


@pytest.mark.parametrize("inner", INNER)
def test_each_pass_takes_so_much_longer(inner) -> None:
    plain = inner.timer(50_000, 1.0, 1.0)
    timer = OverheadTimer(plain, 1000)
    assert timer.prefill_ns(2, 300, 20) == plain.prefill_ns(2, 300, 20) + 1000
    assert timer.decode_ns(3, 300) == plain.decode_ns(3, 300) + 1000
    assert timer.beside_ns(3, 300) == plain.beside_ns(3, 300)
    assert timer.fused_ns([(0, 64)], 3, 300) == plain.fused_ns([(0, 64)], 3, 300) + 1000
    assert timer.run_ns(*RUN) == plain.run_ns(*RUN) + 50_000
    contract.check_cuts(timer, contract.Run(3, 300, 12))


def test_pickle() -> None:
    contract.check_pickle(OverheadTimer(PolynomialTiming().timer(50_000, 1.0, 1.0), 500), RUN)
