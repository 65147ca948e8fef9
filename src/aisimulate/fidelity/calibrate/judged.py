"""What a finished fit says of its log: that it cannot be, or that it holds for what it was fitted to only."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.fidelity.calibrate.fit import HIGHEST, LOWEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.fidelity.calibrate.loss import Errors
    from aisimulate.fidelity.calibrate.replayer import Candidate
    from aisimulate.fidelity.calibrate.request_log import RequestLog

LONGEST_OFFSET_MS = 10_000.0
"""No constant between client and engine is longer: clients have given up by then."""

_BEYOND = 5.0  # a factor at its bound, and still so many times off: no engine is, but s beside ms are
_LARGE_ERROR = 0.10
_TIMES_TRAINING = 3.0
_ASK = "are its times in another unit (s, ms), or does it belong to other settings?"


def check_fit(log: RequestLog, candidate: Candidate, offset_ms: float, after: tuple[Errors, ...]) -> None:
    """Refuse a fit that no engine can explain, so that it is not written.

    Raises `InputError` for a constant offset longer than `LONGEST_OFFSET_MS`, and for factors at their bounds
    with which times per output token (without any, latencies) are still off by more than five times.
    """
    if offset_ms > LONGEST_OFFSET_MS:
        rule = f"clients would see everything {offset_ms:.6g} ms later than the engine, more than 10 s"
        raise InputError(f"{log.file}: {rule}: are clocks or units (s, ms) mixed?")
    if candidate.step_model is not None:
        return
    for name in ("decode_scale", "prefill_scale"):
        value = getattr(candidate, name)
        worst = max((_ratio(part) for part in after), default=1.0)
        if value in (LOWEST, HIGHEST) and worst > _BEYOND:
            rule = f"{name} is at its bound {value:g}, and times are still {worst:.3g} times off"
            raise InputError(f"{log.file}: {rule}: {_ASK}")


def held_out_doubts(training: Errors, held_out: Errors | None) -> Iterator[str]:
    """Name the means that are far worse for held-out requests than for the fitted ones."""
    if held_out is None:
        return
    fitted = asdict(training)
    for name, error in asdict(held_out).items():
        own = fitted[name]
        if error is None or own is None:
            continue
        if abs(error) > _LARGE_ERROR and abs(error) > _TIMES_TRAINING * abs(own):
            yield (
                f"held-out {name} error {error:+.1%}, but {own:+.1%} for what was fitted: "
                "it does not carry over to the rest of the log"
            )


def _ratio(errors: Errors) -> float:
    """How many times the simulated time is longer or shorter than the measured one."""
    error = errors.e2e if errors.tpot is None else errors.tpot
    if error is None or error <= -1.0:
        return 1.0
    return max(1.0 + error, 1.0 / (1.0 + error))
