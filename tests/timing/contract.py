"""What every `PassTimer` must do. Imported by the tests of each timer; knows nothing of any one of them."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.core.protocols import PassTimer


class Run(NamedTuple):
    batch: int
    context_tokens: int
    passes: int


@st.composite
def runs(draw: st.DrawFn, max_batch: int = 64, max_context: int = 30_000, max_passes: int = 400) -> Run:
    """Runs whose sequences hold at least one token each."""
    batch = draw(st.integers(1, max_batch))
    mean = draw(st.integers(1, max_context))
    remainder = draw(st.integers(0, batch - 1))
    return Run(batch, mean * batch + remainder, draw(st.integers(0, max_passes)))


def check_run(timer: PassTimer, run: Run) -> None:
    """A run is the sum of its passes, in every form in which it can be asked for."""
    batch, context, passes = run
    durations = timer.durations_ns(batch, context, passes)
    single = [timer.decode_ns(batch, context + i * batch) for i in range(passes)]
    assert durations == single
    assert all(type(d) is int and d >= 0 for d in durations)
    uneven = [context + i * (batch + i % 7) for i in range(passes)]
    if passes:
        uneven.sort()
        assert timer.forwards_ns(batch, uneven) == [timer.decode_ns(batch, tokens) for tokens in uneven]
    total = timer.run_ns(batch, context, passes)
    assert type(total) is int
    assert total == sum(durations)
    floor = timer.run_floor_ns(batch, context, passes)
    assert type(floor) is int
    assert 0 <= floor <= total
    assert timer.run_floor_ns(batch, context, 1) == durations[0] if passes else True


def check_cut(timer: PassTimer, run: Run, elapsed_ns: int) -> None:
    """`passes_until` is the first pass end at or after `elapsed_ns`."""
    batch, context, passes = run
    count, ns = timer.passes_until(batch, context, passes, elapsed_ns)
    assert type(count) is int
    assert type(ns) is int
    assert 0 <= count <= passes
    assert ns == timer.run_ns(batch, context, count)
    if ns < elapsed_ns:
        assert count == passes
    if count:
        assert timer.run_ns(batch, context, count - 1) < elapsed_ns


def check_cuts(timer: PassTimer, run: Run) -> None:
    """Cuts at, just before and just after every pass end of a run, and beyond both of its ends."""
    batch, context, passes = run
    ends = [0]
    for duration in timer.durations_ns(batch, context, passes):
        ends.append(ends[-1] + duration)
    for end in ends:
        for elapsed_ns in (end - 1, end, end + 1):
            check_cut(timer, run, elapsed_ns)
    check_cut(timer, run, 2 * ends[-1] + 10)


def check_tally(timer: PassTimer, many: Sequence[Run]) -> None:
    """`tally_ns` counts `durations_ns` of every run; run i has weight i + 1."""
    columns = [np.array([run[i] for run in many], dtype=np.int64) for i in range(3)]
    firsts = timer.decodes_ns(columns[0], columns[1])
    assert firsts.tolist() == [timer.decode_ns(run[0], run[1]) for run in many]
    durations, counts = timer.tally_ns(*columns, np.arange(1, len(many) + 1))
    assert durations.dtype == counts.dtype == np.int64
    tallied: Counter[int] = Counter()
    for duration, count in zip(durations.tolist(), counts.tolist(), strict=True):
        tallied[duration] += count
    expected: Counter[int] = Counter()
    for weight, run in enumerate(many, start=1):
        for duration in timer.durations_ns(*run):
            expected[duration] += weight
    assert +tallied == expected


def check_prefill_wrapper(timer: PassTimer) -> None:
    """Nothing to compute costs nothing; anything else costs something, in whole ns."""
    assert timer.prefill_ns(0, 100, 0) == 0
    assert timer.prefill_ns(3, 64, 64) == 0
    assert timer.prefill_ns(3, 64, 65) == 0
    assert timer.prefill_ns(2, 65, 64) > 0
    assert type(timer.prefill_ns(2, 65, 64)) is int


def check_fused(timer: PassTimer, batch: int, context_tokens: int) -> None:
    """One forward lasts at least as long as the chunk in it, and no longer than two forwards."""
    alone = timer.fused_ns([(100, 612)], 0, 0)
    assert type(alone) is int
    assert abs(alone - timer.prefill_ns(1, 612, 100)) <= 1
    together = timer.fused_ns([(100, 612)], batch, context_tokens)
    assert type(together) is int
    assert alone <= together <= timer.prefill_ns(1, 612, 100) + timer.decode_ns(batch, context_tokens)
    more = timer.fused_ns([(100, 612), (0, 64)], batch, context_tokens)
    assert more >= timer.fused_ns([(0, 64)], 0, 0)  # measured times are not monotone in tokens
    assert timer.fused_ns([(0, 64), (100, 612)], batch, context_tokens) == more


def check_rises(timer: PassTimer, run: Run, more: int) -> None:
    """A timer that says so takes no less for more decoders, for longer ones, or with a prompt beside."""
    batch, context, _ = run
    shorter = timer.decode_ns(batch, context)
    if timer.rises:
        assert timer.prefill_ns(1, 1, 0) + timer.beside_ns(batch, context) >= shorter
        assert timer.decode_ns(batch + 1, context + more) >= shorter
        assert timer.decode_ns(batch, context + more) >= shorter


def check_pickle(timer: PassTimer, run: Run) -> None:
    """A timer survives the way to another process and prices as before."""
    copy = pickle.loads(pickle.dumps(timer))
    assert copy.durations_ns(*run) == timer.durations_ns(*run)
    assert copy.prefill_ns(2, 300, 20) == timer.prefill_ns(2, 300, 20)
