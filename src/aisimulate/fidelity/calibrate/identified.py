"""What a log does not tell about pass times, in one line each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.fidelity.calibrate.fit import HIGHEST, LOWEST
from aisimulate.fidelity.calibrate.loss import errors, training_loss

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.fidelity.calibrate.fit import Fit
    from aisimulate.fidelity.calibrate.replayer import Candidate, LogReplayer, Replayed
    from aisimulate.fidelity.calibrate.request_log import RequestLog

_ENOUGH_REQUESTS = 20
_SMALL_BATCH = 8
_SHARE_OF_BATCH = 0.25
_STEP = 1.1
_FLAT = 0.004  # a change of the loss that any run of the same engine could make
_POOR_LOSS = 0.25
_OTHER_UNIT = 50.0  # a factor at its bound, and still so far off: no engine is, but s beside ms are


def doubts(log: RequestLog, replayer: LogReplayer, count: int, fit: Fit) -> list[str]:
    """Say what the first `count` requests of a log do not identify; nothing when all is well."""
    found = [*_few(count), *_small_batches(log, count), *_at_bounds(fit.candidate)]
    found += _flat(log, replayer, count, fit)
    found += _unlike(log, replayer.replay(fit.candidate), count)
    if fit.loss > _POOR_LOSS:
        found.append(f"the fit is poor (training loss {fit.loss:.2f}): do settings and log belong together?")
    return found


def in_flight(log: RequestLog, until_ms: float) -> int:
    """Give the most requests that decode at once up to an instant."""
    begins = np.sort(log.arrival_ms + np.nan_to_num(log.ttft_ms))
    ends = np.sort(log.last_token_ms)
    begun = np.arange(1, len(begins) + 1) - np.searchsorted(ends, begins, side="right")
    return int(np.max(begun[begins <= until_ms], initial=0))


def _few(count: int) -> Iterator[str]:
    if count < _ENOUGH_REQUESTS:
        yield f"only {count} requests completed: {_ENOUGH_REQUESTS} to 60 are needed for figures to trust"


def _small_batches(log: RequestLog, count: int) -> Iterator[str]:
    fitted, all_ = in_flight(log, float(np.max(log.last_token_ms[:count]))), in_flight(log, np.inf)
    if fitted < max(_SMALL_BATCH, _SHARE_OF_BATCH * all_):
        yield f"no more than {fitted} requests decode at once while it is fitted: larger batches are a guess"


def _at_bounds(candidate: Candidate) -> Iterator[str]:
    for name in ("prefill_scale", "decode_scale"):
        value = getattr(candidate, name)
        if value in (LOWEST, HIGHEST):
            yield f"{name}: {value:g} is at its bound: the log asks for more"


def _unlike(log: RequestLog, replayed: Replayed, count: int) -> Iterator[str]:
    """Name requests that the settings cannot serve, and times of another size."""
    lost = int(np.sum(~np.isfinite(replayed.last_token_ms[:count])))
    if lost:
        yield f"{lost} of the {count} requests cannot be served with these settings: too few KV blocks?"
    error = errors(log, replayed, slice(0, count)).e2e
    ratio = 1.0 if error is None or error <= -1.0 else 1.0 / (1.0 + error)
    if not 1.0 / _OTHER_UNIT <= ratio <= _OTHER_UNIT:
        yield f"measured latencies are {ratio:.3g} times those simulated: are they in another unit (s, ms)?"


def _flat(log: RequestLog, replayer: LogReplayer, count: int, fit: Fit) -> Iterator[str]:
    """Name the kinds of passes whose times could as well be a tenth longer or shorter."""
    for name, changed in _neighbours(fit.candidate):
        losses = [training_loss(log, replayer.replay(candidate), count) for candidate in changed]
        if min(losses) - fit.loss < _FLAT:
            yield f"{name}: not identified, a tenth more or less changes the loss by {_FLAT:g} at most"


def _neighbours(candidate: Candidate) -> Iterator[tuple[str, list[Candidate]]]:
    for name in ("prefill_scale", "decode_scale"):
        value = getattr(candidate, name)
        changed = [replace(candidate, **{name: value * factor}) for factor in (_STEP, 1.0 / _STEP)]
        kind = "prefill" if name == "prefill_scale" else "only decode"
        yield f"times of passes that {kind}", changed
