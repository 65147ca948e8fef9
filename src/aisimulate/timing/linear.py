"""A step model that needs no tables: a constant, and what each token and request adds (spec 07 section 4.2).

Coefficients are whole femtoseconds, so that a pass is rounded to whole ns once, and a run of passes, which
is a sum of rounded terms of an arithmetic progression, has an exact closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError, TimingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.timing.ramps import Int64s

_FS_PER_NS = 1_000_000
_HALF_NS = _FS_PER_NS // 2
_FS_PER_MS = 10**12
_MOST_FS = 1 << 100  # a duration beyond that is no pass of this world


@dataclass(frozen=True, slots=True)
class LinearTiming:
    """Coefficients in ms; all are finite, and none is negative (`InputError` otherwise).

    A pass lasts `constant_ms`, plus `prefill_token_ms` for each prompt token that it computes, `decode_ms`
    for each request that decodes in it, `context_token_ms` for each token of the lengths of those, and
    `mixed_decode_ms` for each of them if the pass also prefills.
    """

    constant_ms: float
    prefill_token_ms: float
    decode_ms: float
    context_token_ms: float
    mixed_decode_ms: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"timing_model.{field.name}: {value!r} must be finite and not negative")

    def timer(self, total_kv_tokens: int, prefill_speedup: float, decode_speedup: float) -> LinearTimer:
        """Bind to speed-up ratios, which divide the coefficients; the KV capacity plays no part.

        The constant and the prompt tokens go by the prefill ratio in passes that prefill. Raises
        `TimingError` when a ratio makes passes too long to represent.
        """
        return linear_timer(self, prefill_speedup, decode_speedup)


class LinearTimer:
    """A `PassTimer` of whole femtoseconds per item, rounded half up to whole ns in each pass."""

    __slots__ = (
        "_arguments",
        "_constant_fs",
        "_context_fs",
        "_decode_fs",
        "_mixed_fs",
        "_prefill_constant_fs",
        "_prefill_token_fs",
    )

    rises = False  # decoders in a pass that prefills share its constant

    def __init__(self, timing: LinearTiming, prefill_speedup: float, decode_speedup: float) -> None:
        self._arguments = timing, prefill_speedup, decode_speedup
        self._prefill_constant_fs = _femtoseconds(timing.constant_ms, prefill_speedup)
        self._prefill_token_fs = _femtoseconds(timing.prefill_token_ms, prefill_speedup)
        self._constant_fs = _femtoseconds(timing.constant_ms, decode_speedup)
        self._decode_fs = _femtoseconds(timing.decode_ms, decode_speedup)
        self._context_fs = _femtoseconds(timing.context_token_ms, decode_speedup)
        self._mixed_fs = self._decode_fs + _femtoseconds(timing.mixed_decode_ms, decode_speedup)

    def __reduce__(self) -> tuple[object, tuple[LinearTiming, float, float]]:
        """Send the coefficients to another process."""
        return linear_timer, self._arguments

    def prefill_ns(self, batch: int, mean_isl: int, mean_prefix: int) -> int:
        """Duration of a prefill forward; 0 when nothing is left to compute."""
        if batch == 0 or mean_isl <= mean_prefix:
            return 0
        tokens = batch * (mean_isl - mean_prefix)
        return (self._prefill_constant_fs + self._prefill_token_fs * tokens + _HALF_NS) // _FS_PER_NS

    def decode_ns(self, batch: int, context_tokens: int) -> int:
        """Duration of one decode forward."""
        return (self._first_fs(batch, context_tokens) + _HALF_NS) // _FS_PER_NS

    def beside_ns(self, batch: int, context_tokens: int) -> int:
        """What a decode batch adds to a pass that prefills: it shares the constant."""
        return (self._mixed_fs * batch + self._context_fs * context_tokens + _HALF_NS) // _FS_PER_NS

    def fused_ns(self, spans: Sequence[tuple[int, int]], batch: int, context_tokens: int) -> int:
        """Duration of one forward over chunks and decoders."""
        tokens = sum(end - start for start, end in spans)
        fs = self._prefill_constant_fs + self._prefill_token_fs * tokens
        fs += self._mixed_fs * batch + self._context_fs * context_tokens
        return (fs + _HALF_NS) // _FS_PER_NS

    def run_ns(self, batch: int, context_tokens: int, passes: int) -> int:
        """Exact duration of a run, in closed form."""
        return _floors(passes, _FS_PER_NS, self._context_fs * batch, self._first_fs(batch, context_tokens))

    run_floor_ns = run_ns

    def passes_until(self, batch: int, context_tokens: int, passes: int, elapsed_ns: int) -> tuple[int, int]:
        """Smallest k <= passes whose run lasts `elapsed_ns` or more, else `passes`; with its ns."""
        if elapsed_ns <= 0:
            return 0, 0
        first, slope = self._first_fs(batch, context_tokens), self._context_fs * batch
        total = _floors(passes, _FS_PER_NS, slope, first)
        if total < elapsed_ns:
            return passes, total
        count = min(passes, _estimate(first / _FS_PER_NS, slope / _FS_PER_NS, elapsed_ns))
        total = _floors(count, _FS_PER_NS, slope, first)
        while total < elapsed_ns:
            total += (first + slope * count + _HALF_NS) // _FS_PER_NS
            count += 1
        while (shorter := total - (first + slope * (count - 1) + _HALF_NS) // _FS_PER_NS) >= elapsed_ns:
            total = shorter
            count -= 1
        return count, total

    def durations_ns(self, batch: int, context_tokens: int, passes: int) -> list[int]:
        """List the duration of each pass of a run."""
        first, slope = self._first_fs(batch, context_tokens) + _HALF_NS, self._context_fs * batch
        return [(first + slope * number) // _FS_PER_NS for number in range(passes)]

    def forwards_ns(self, batch: int, contexts: list[int]) -> list[int]:
        """List the durations of forwards of one batch."""
        first, each = self._first_fs(batch, 0) + _HALF_NS, self._context_fs
        return [(first + each * context) // _FS_PER_NS for context in contexts]

    def decodes_ns(self, batches: Int64s, contexts: Int64s) -> Int64s:
        """Durations of many decode forwards."""
        import numpy as np  # noqa: PLC0415 - numpy costs start-up time that a small replay need not pay

        return np.array(list(map(self.decode_ns, batches.tolist(), contexts.tolist())), dtype=np.int64)

    def tally_ns(
        self, batches: Int64s, contexts: Int64s, passes: Int64s, weights: Int64s
    ) -> tuple[Int64s, Int64s]:
        """List the durations of the passes of many runs, with their weights."""
        import numpy as np  # noqa: PLC0415 - as above

        durations: list[int] = []
        for run in zip(batches.tolist(), contexts.tolist(), passes.tolist(), strict=True):
            durations += self.durations_ns(*run)
        return np.array(durations, dtype=np.int64), np.repeat(weights, passes)

    def _first_fs(self, batch: int, context_tokens: int) -> int:
        return self._constant_fs + self._decode_fs * batch + self._context_fs * context_tokens


def _femtoseconds(ms: float, speedup: float) -> int:
    """Round a coefficient, divided by a speed-up ratio (0 and 1 mean unscaled)."""
    fs = ms * _FS_PER_MS / (speedup or 1.0)
    if not fs < _MOST_FS:
        raise TimingError(f"timing_model: {ms!r} ms at speed-up ratio {speedup!r} is too long to represent")
    return round(fs)


def _estimate(first_ns: float, slope_ns: float, elapsed_ns: int) -> int:
    """Estimate how many passes take `elapsed_ns`, good to a few; at least 1."""
    linear = first_ns - slope_ns / 2
    root = math.sqrt(linear * linear + 2.0 * slope_ns * elapsed_ns)
    return max(1, math.ceil(2.0 * elapsed_ns / (linear + root))) if linear + root > 0 else 1


def _floors(count: int, divisor: int, slope: int, first: int) -> int:
    """Sum (first + slope * i + half the divisor) // divisor over i = 0 .. count - 1.

    The steps are Euclid's: each swaps the roles of slope and divisor, so there are few.
    """
    total, first = 0, first + divisor // 2
    while count:
        if slope >= divisor:
            total += (count * (count - 1) >> 1) * (slope // divisor)
            slope %= divisor
        if first >= divisor:
            total += count * (first // divisor)
            first %= divisor
        last = first + slope * count
        if last < divisor:
            break
        count, first = divmod(last, divisor)
        slope, divisor = divisor, slope
    return total


@lru_cache(maxsize=64)
def linear_timer(timing: LinearTiming, prefill_speedup: float, decode_speedup: float) -> LinearTimer:
    """Give the timer of these parameters."""
    return LinearTimer(timing, prefill_speedup, decode_speedup)
