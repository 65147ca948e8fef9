"""What no request of a log can be: its parts out of order, lengths that are no counts of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aisimulate.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from aisimulate.fidelity.calibrate.request_log import RequestLog
    from aisimulate.fidelity.measured.run import Floats

_ROUNDED_MS = 1.5  # instants that were written in whole ms may seem so much out of order
_LONGEST_MS = 7 * 24 * 3600 * 1000.0
_MOST_TOKENS = 1e9
_OTHER_SIZE = 100.0  # s and ms are 1,000 apart; the slowest request of a busy engine is far less


def check_lengths(path: object, inputs: Floats, outputs: Floats) -> None:
    """Refuse lengths that are no numbers of tokens. Raises `InputError`, naming the request."""
    for name, values, least in (("prompt", inputs, 1), ("output", outputs, 0)):
        wrong = (values < least) | (values != np.floor(values)) | (values > _MOST_TOKENS)
        if wrong.any():
            place = int(np.argmax(wrong))
            raise InputError(
                f"{path}: completed request {place + 1}: {name} of {values[place]:g} tokens: "
                f"must be a whole number from {least} to {_MOST_TOKENS:g}"
            )


def check_instants(path: object, log: RequestLog) -> None:
    """Refuse a request whose instants are out of order, or further apart than any request lasts.

    Raises `InputError`, naming the first such request of the file among those that completed.
    """
    found = [(place, rule) for wrong, rule in _rules(log) for place in _places(log, wrong)]
    if found:
        place, rule = min(found)
        raise InputError(f"{path}: completed request {place + 1}: {rule}: are clocks or units mixed?")


def _places(log: RequestLog, wrong: npt.NDArray[np.bool_]) -> list[int]:
    return [log.place[int(number)] for number in np.flatnonzero(wrong)]


def _rules(log: RequestLog) -> Iterator[tuple[npt.NDArray[np.bool_], str]]:
    """Comparisons with what is not known (NaN) are never true."""
    yield log.ttft_ms < -_ROUNDED_MS, "its first token came before it arrived"
    yield log.e2e_ms - log.ttft_ms < -_ROUNDED_MS, "its last token came before its first"
    yield log.e2e_ms < -_ROUNDED_MS, "its last token came before it arrived"
    yield log.e2e_ms > _LONGEST_MS, "it lasted for more than a week"
    if log.scheduled_ms is not None:
        yield log.first_token_ms - log.scheduled_ms < -_ROUNDED_MS, "it was scheduled after its first token"
    yield from _unlike_others(log)


def _unlike_others(log: RequestLog) -> Iterator[tuple[npt.NDArray[np.bool_], str]]:
    """Find times of another size than those of the other requests.

    A request that was preempted after its first token has one long gap, and one whose answer came at once
    none. So both its time per token and its whole time between tokens must be of another size.
    """
    spans_ms = log.e2e_ms - log.ttft_ms
    usual_tpot_ms, usual_span_ms, usual_ttft_ms = (_median(x) for x in (log.tpot_ms, spans_ms, log.ttft_ms))
    rule = f"{_OTHER_SIZE:g} times that of the others"
    long = (log.tpot_ms > _OTHER_SIZE * usual_tpot_ms) & (spans_ms > _OTHER_SIZE * usual_span_ms)
    yield long, f"its time per output token is more than {rule}"
    short = (log.tpot_ms * _OTHER_SIZE < usual_tpot_ms) & (spans_ms * _OTHER_SIZE < usual_span_ms)
    yield short & (log.ttft_ms * _OTHER_SIZE < usual_ttft_ms), f"its times are less than 1/{rule}"


def _median(values: Floats) -> float:
    """Give the median of what is known and above 0; NaN without any, with which every comparison is false."""
    told = values[np.isfinite(values) & (values > 0)]
    return float(np.median(told)) if len(told) else float("nan")
