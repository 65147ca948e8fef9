"""How far a replay is from a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from aisimulate.fidelity.calibrate.replayer import Replayed
    from aisimulate.fidelity.calibrate.request_log import RequestLog
    from aisimulate.fidelity.measured.run import Floats


@dataclass(frozen=True, slots=True)
class Errors:
    """Simulated / measured - 1: of the means of three latencies, and of output tokens / makespan.

    None where nothing was measured.
    """

    ttft: float | None
    tpot: float | None
    e2e: float | None
    throughput: float | None


def training_loss(log: RequestLog, replayed: Replayed, count: int) -> float:
    """Sum up how far the first `count` requests are off, request by request.

    Mean absolute errors of TPOT and of E2E, each relative to its measured mean, and that of TTFT relative to
    the mean of E2E: where a queue builds up, a TTFT is a small difference of large times, and its own mean
    would let the first few requests decide.
    """
    part = slice(0, count)
    e2e_ms = float(np.mean(log.e2e_ms[part]))
    tpot_ms = _mean(log.tpot_ms[part])
    loss = _distance(log.e2e_ms[part], replayed.e2e_ms[part]) / e2e_ms
    loss += _distance(log.ttft_ms[part], replayed.ttft_ms[part]) / e2e_ms
    if tpot_ms:
        loss += _distance(log.tpot_ms[part], replayed.tpot_ms[part]) / tpot_ms
    return loss


def errors(log: RequestLog, replayed: Replayed, part: slice) -> Errors:
    """Compare means over a part of the log."""
    measured, simulated = (_makespan_ms(item, part) for item in (log, replayed))
    return Errors(
        ttft=_mean_error(log.ttft_ms[part], replayed.ttft_ms[part]),
        tpot=_mean_error(log.tpot_ms[part], replayed.tpot_ms[part]),
        e2e=_mean_error(log.e2e_ms[part], replayed.e2e_ms[part]),
        throughput=measured / simulated - 1.0 if simulated > 0 else None,
    )


def _makespan_ms(run: RequestLog | Replayed, part: slice) -> float:
    """Time from the first arrival of a part to its last token."""
    return float(np.nanmax(run.last_token_ms[part]) - np.nanmin(run.arrival_ms[part]))


def _distance(measured: Floats, simulated: Floats) -> float:
    """Give the mean absolute difference; what did not complete counts as lasting three times as long."""
    told = np.isfinite(measured)
    if not told.any():
        return 0.0
    known = np.where(np.isfinite(simulated[told]), simulated[told], 3.0 * measured[told])
    return float(np.mean(np.abs(known - measured[told])))


def _mean(values: Floats) -> float:
    told = values[np.isfinite(values)]
    return float(np.mean(told)) if len(told) else 0.0


def _mean_error(measured: Floats, simulated: Floats) -> float | None:
    told = np.isfinite(measured) & np.isfinite(simulated)
    if not told.any() or not (mean := float(np.mean(measured[told]))):
        return None
    return float(np.mean(simulated[told])) / mean - 1.0
