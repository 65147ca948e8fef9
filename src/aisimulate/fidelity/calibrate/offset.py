"""What stands between client and engine, as far as a log tells it: a constant, seen where nobody queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from aisimulate.fidelity.calibrate.replayer import Replayed
    from aisimulate.fidelity.calibrate.request_log import RequestLog

_PASSES = 2.0  # a wait of up to so many passes is no queue
_ENOUGH = 20
_DIGITS = 3


def ttft_offset_ms(log: RequestLog, replayed: Replayed, count: int) -> float:
    """Give what is missing in the first tokens of the first `count` requests; never below 0.

    The median over those that did not queue, or the mean over all of them if that is less; 0 when fewer than
    20 did not queue. Pass times are fitted without it: they follow from the times between tokens and from
    ends, which a constant hardly moves.
    """
    tpot_ms = log.tpot_ms[:count]
    if not np.isfinite(tpot_ms).any():
        return 0.0
    waits_ms = (replayed.scheduled_ms - replayed.arrival_ms)[:count]
    missing_ms = (log.ttft_ms - replayed.ttft_ms)[:count]
    chosen = (waits_ms <= _PASSES * float(np.nanmean(tpot_ms))) & np.isfinite(missing_ms)
    if chosen.sum() < _ENOUGH:
        return 0.0
    found_ms = min(float(np.median(missing_ms[chosen])), float(np.nanmean(missing_ms)))
    return max(0.0, round(found_ms, _DIGITS))
