"""Hand-built replay outcomes: what an engine would have left behind, written down by hand."""

from __future__ import annotations

import numpy as np

from aisimulate.core.traffic import Session, Turn
from aisimulate.core.units import clock_ns
from aisimulate.engine.gap_log import GapLog
from aisimulate.engine.sequence import COMPLETED, REJECTED, Origin, Sequence
from aisimulate.replay.outcome import ReplayOutcome, Sla


class FormulaTimer:
    """A `PassTimer` (the part the report needs) whose decode duration is `formula(batch, context)`."""

    def __init__(self, formula):
        self.formula = formula
        self.priced = 0  # passes priced so far

    def durations_ns(self, batch, context, passes):
        return [int(self.formula(batch, context + i * batch)) for i in range(passes)]

    def decodes_ns(self, batches, contexts):
        forwards = zip(batches.tolist(), contexts.tolist(), strict=True)
        return np.array([int(self.formula(*forward)) for forward in forwards], dtype=np.int64)

    def tally_ns(self, batches, contexts, passes, weights):
        self.priced += int(passes.sum())
        rows = zip(batches.tolist(), contexts.tolist(), passes.tolist(), strict=True)
        values = [ns for row in rows for ns in self.durations_ns(*row)]
        return np.array(values, dtype=np.int64), np.repeat(weights, passes)


def ns(ms):
    return None if ms is None else clock_ns(ms)


def sequence(
    ordinal=0,
    *,
    arrival=0.0,
    isl=8,
    osl=1,
    emitted=None,
    admissions=((0.0, 0),),
    tokens=(),
    end=None,
    status=COMPLETED,
    reason=None,
    request_id=None,
    session_id=None,
    turn_index=None,
    metadata=None,
    worker=0,
    rank=0,
):
    """A request; times in ms. `tokens` are the instants of its first, second and last token, if any."""
    turn = Turn(isl, osl, request_id=request_id, metadata=metadata)
    origin = Origin(turn, Session(session_id, [turn]), turn_index, arrival)
    result = Sequence(ordinal, origin, clock_ns(arrival), isl, osl, None)
    result.admissions = tuple((clock_ns(at), reused) for at, reused in admissions)
    if tokens:
        result.first_token_ns = ns(tokens[0])
        result.last_token_ns = ns(tokens[-1])
        result.second_token_ns = ns(tokens[1]) if len(tokens) > 1 else None
    result.tokens = isl + ((osl if status == COMPLETED else 0) if emitted is None else emitted)
    result.status, result.reason = status, reason
    last = tokens[-1] if tokens else None
    result.terminal_ns = ns(last if end is None else end) if status else None
    result.worker, result.rank = worker, rank
    return result


def rejected(ordinal=0, *, end=0.0, reason="the prompt exceeds max_model_len", **authored):
    return sequence(ordinal, admissions=(), end=end, status=REJECTED, reason=reason, **authored)


def gap_log(*, passes=(), runs=(), series=(), singles=(), timer=None):
    """`passes` as (ms, weight); runs and series as in `GapLog`, without their first pass."""
    log = GapLog(timer or FormulaTimer(lambda batch, context: clock_ns(5.0)))
    log.passes = [number for ms, weight in passes for number in (clock_ns(ms), weight, 0)]
    log.runs = [number for run in runs for number in (*run, 0)]
    log.series = [(*row, 0) for row in series]
    log.singles = list(singles)
    log.pack()
    return log


def outcome(sequences, *logs, end, workers=1, sla=None, **fleet):
    """An outcome whose last event is at `end` ms."""
    return ReplayOutcome(list(sequences), list(logs), clock_ns(end), workers, sla=sla or Sla(), **fleet)
