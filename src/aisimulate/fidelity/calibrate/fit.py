"""Finds the pass times that bring a replay closest to a log (spec 07 sections 3 and 4.2).

Given who was in which pass, the time that a request spends is linear in the two factors, or in the
coefficients of a step model. So a fit begins with a few rounds of replay and regression, which is a closed
form each, and ends with a simplex search over a factor for each kind of pass. All of it is deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from aisimulate.config.timing import LinearTiming
from aisimulate.fidelity.calibrate.loss import training_loss
from aisimulate.fidelity.calibrate.pass_log import PassLog
from aisimulate.fidelity.calibrate.replayer import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.fidelity.calibrate.replayer import LogReplayer, Replayed
    from aisimulate.fidelity.calibrate.request_log import RequestLog
    from aisimulate.fidelity.measured.run import Floats

LOWEST, HIGHEST = 0.5, 3.0
"""Bounds of the two factors."""

_ROUNDS = 6
_FOLLOWS = 0.7  # how far a round goes towards what the regression found
_EXECUTION_WEIGHT = 0.1  # of times from scheduling to the first token, which a look-ahead of the engine blurs
_DIGITS = 6
# Logarithms of factors; of equal losses the first wins. Prefills weigh more where a valley runs along both.
_PREFILL_GRID = (0.0, -0.06, 0.06, -0.12, 0.12)
_DECODE_GRID = (*_PREFILL_GRID, -0.24, 0.24)
_FIRST_STEP = 0.03


@dataclass(frozen=True, slots=True)
class Fit:
    """The best candidate found of one kind, and its training loss."""

    candidate: Candidate
    loss: float


class Family(Protocol):
    """A kind of pass times with a vector of parameters, in which the time of a pass is linear."""

    @property
    def first(self) -> Floats:
        """Where to begin."""
        ...

    def candidate(self, parameters: Floats) -> Candidate:
        """Make the pass times of some parameters."""
        ...

    def terms(self, sums: Floats, parameters: Floats) -> Floats:
        """Take from sums of `PassLog` terms what each parameter is multiplied by."""
        ...

    def scaled(self, parameters: Floats, prefill: float, decode: float) -> Floats:
        """Multiply what counts for passes that prefill, and for the others."""
        ...


class Scales:
    """Factors on the times of a provider, in one way to time mixed passes."""

    first = np.ones(2)

    def __init__(self, timing_mode: str) -> None:
        self._timing_mode = timing_mode

    def candidate(self, parameters: Floats) -> Candidate:
        """Make the candidate of two factors, brought within their bounds."""
        prefill, decode = (round(float(value), _DIGITS) for value in np.clip(parameters, LOWEST, HIGHEST))
        return Candidate(self._timing_mode, prefill, decode)

    def terms(self, sums: Floats, parameters: Floats) -> Floats:
        """Times of both kinds of passes before any factor."""
        terms: Floats = sums[:, :2] / np.clip(parameters, LOWEST, HIGHEST)
        return terms

    def scaled(self, parameters: Floats, prefill: float, decode: float) -> Floats:
        """Multiply both factors."""
        scaled: Floats = np.clip(parameters, LOWEST, HIGHEST) * np.array([prefill, decode])
        return scaled


class Steps:
    """A step model without tables, in one forward per pass."""

    # About what a GPU of a few hundred TFLOPS does with a model of a few billion parameters.
    first = np.array([10.0, 0.1, 0.05, 1e-4, 0.0])

    def candidate(self, parameters: Floats) -> Candidate:
        """Make the candidate of five coefficients, in ms."""
        told = [float(f"{max(value, 0.0):.9g}") for value in parameters.tolist()]
        constant, prefill, decode, context, mixed = told
        model = LinearTiming(
            constant_ms=constant,
            prefill_token_ms=prefill,
            decode_ms=decode,
            context_token_ms=context,
            mixed_decode_ms=mixed,
        )
        return Candidate("fused", step_model=model)

    def terms(self, sums: Floats, parameters: Floats) -> Floats:
        """Numbers of passes, prefill tokens, decodes, context tokens, and decodes beside prefills."""
        del parameters
        return sums[:, 2:]

    def scaled(self, parameters: Floats, prefill: float, decode: float) -> Floats:
        """Multiply what prefill tokens and decodes beside them cost, and all else."""
        scaled: Floats = np.maximum(parameters, 0.0) * np.array([decode, prefill, decode, decode, prefill])
        return scaled


def fit(log: RequestLog, replayer: LogReplayer, count: int, family: Family, evaluations: int) -> Fit:
    """Fit a family to the first `count` requests, with `evaluations` replays at most for the search."""

    def loss_of(parameters: Floats) -> float:
        return training_loss(log, replayer.replay(family.candidate(parameters)), count)

    start = _regressed(log, replayer, count, family)
    best = _searched(lambda factors: loss_of(family.scaled(start, *factors)), evaluations)
    parameters = family.scaled(start, *best)
    return Fit(family.candidate(parameters), loss_of(parameters))


def _regressed(log: RequestLog, replayer: LogReplayer, count: int, family: Family) -> Floats:
    """Go through rounds of replay and regression; give the parameters of the round with the least loss."""
    parameters, best = family.first, (np.inf, family.first)
    for _ in range(_ROUNDS):
        passes = PassLog()
        replayed = replayer.watch(family.candidate(parameters), passes)
        best = min(best, (training_loss(log, replayed, count), parameters), key=lambda item: item[0])
        found = _regression(log, replayed, count, family, parameters, passes)
        if found is None:
            break
        parameters = parameters + _FOLLOWS * (found - parameters)
    replayed = replayer.replay(family.candidate(parameters))
    return min(best, (training_loss(log, replayed, count), parameters), key=lambda item: item[0])[1]


def _regression(
    log: RequestLog, replayed: Replayed, count: int, family: Family, parameters: Floats, passes: PassLog
) -> Floats | None:
    """Find the parameters that explain the times which requests spent in the passes of a replay.

    Rows are the times between first and last token and, with little weight, those between scheduling and
    first token where they were logged; each counts relative to itself.
    """
    from scipy.optimize import nnls  # noqa: PLC0415 - it costs start-up time

    part = slice(0, count)
    first, last = replayed.first_token_ms[part], replayed.last_token_ms[part]
    spans = [(first, last, log.e2e_ms[part] - log.ttft_ms[part], 1.0)]
    if log.scheduled_ms is not None:
        executed_ms = log.first_token_ms[part] - log.scheduled_ms[part]
        spans.append((replayed.scheduled_ms[part], first, executed_ms, _EXECUTION_WEIGHT))
    rows = []
    for begins, ends, measured_ms, weight in spans:
        told = np.isfinite(begins) & np.isfinite(ends) & np.isfinite(measured_ms) & (measured_ms > 0)
        terms = family.terms(passes.between(begins[told], ends[told]), parameters)
        rows.append((weight * terms / measured_ms[told, None], np.full(told.sum(), weight)))
    matrix = np.vstack([row for row, _ in rows])
    sizes = np.abs(matrix).max(axis=0, initial=0.0)
    if not len(matrix) or not sizes.any():
        return None
    sizes[sizes == 0.0] = 1.0
    found: Floats = nnls(matrix / sizes, np.concatenate([target for _, target in rows]))[0] / sizes
    return np.where(np.abs(matrix).max(axis=0) > 0.0, found, parameters)


def _searched(loss_of: Callable[[Floats], float], evaluations: int) -> tuple[float, float]:
    """Search two factors around 1: a grid first, then a simplex from its best point.

    A simplex needs no slopes, and a loss has steps. Where a queue builds up, one kind of pass may last longer
    if the other lasts shorter, and steps of the loss hide how far: the grid looks along that valley.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 - as above

    def of_logs(logs: Floats) -> float:
        return loss_of(np.exp(logs))

    grid = [np.array([prefill, decode]) for prefill in _PREFILL_GRID for decode in _DECODE_GRID]
    start = min(grid, key=of_logs)
    found = minimize(
        of_logs,
        start,
        method="Nelder-Mead",
        options={
            "initial_simplex": [start, *(start + _FIRST_STEP * np.eye(2))],
            "maxfev": evaluations,
            "xatol": 1e-3,
            "fatol": 1e-5,
        },
    )
    prefill, decode = np.exp(found.x).tolist()
    return prefill, decode
