"""Constant pass times (spec 01 section 2.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.core.units import duration_ns, scaled_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.timing.ramps import Int64s


class FixedTimer:
    """A `PassTimer` whose every prefill and every decode forward lasts the same."""

    __slots__ = ("_decode_ns", "_prefill_ns")

    rises = True

    def __init__(self, prefill_ns: int, decode_ns: int) -> None:
        self._prefill_ns = prefill_ns
        self._decode_ns = decode_ns

    def prefill_ns(self, batch: int, mean_isl: int, mean_prefix: int) -> int:
        """Duration of a prefill forward; 0 when nothing is left to compute."""
        return 0 if batch == 0 or mean_isl <= mean_prefix else self._prefill_ns

    def decode_ns(self, batch: int, context_tokens: int) -> int:
        """Duration of one decode forward."""
        return self._decode_ns

    beside_ns = decode_ns

    def fused_ns(self, spans: Sequence[tuple[int, int]], batch: int, context_tokens: int) -> int:
        """Duration of one forward over chunks and decoders: the longer of the two times."""
        return max(self._prefill_ns, self._decode_ns) if batch else self._prefill_ns

    def run_ns(self, batch: int, context_tokens: int, passes: int) -> int:
        """Duration of a run."""
        return passes * self._decode_ns

    run_floor_ns = run_ns

    def passes_until(self, batch: int, context_tokens: int, passes: int, elapsed_ns: int) -> tuple[int, int]:
        """Smallest k <= passes whose run lasts `elapsed_ns` or more, else `passes`; with its ns."""
        step = self._decode_ns
        if elapsed_ns <= 0:
            return 0, 0
        if elapsed_ns > passes * step:
            return passes, passes * step
        needed = -(-elapsed_ns // step)
        return needed, needed * step

    def durations_ns(self, batch: int, context_tokens: int, passes: int) -> list[int]:
        """List the duration of each pass of a run."""
        return [self._decode_ns] * passes

    def forwards_ns(self, batch: int, contexts: list[int]) -> list[int]:
        """List the durations of forwards of one batch."""
        return [self._decode_ns] * len(contexts)

    def decodes_ns(self, batches: Int64s, contexts: Int64s) -> Int64s:
        """Durations of many decode forwards."""
        import numpy as np  # noqa: PLC0415 - numpy costs start-up time that a small replay need not pay

        return np.full(len(batches), self._decode_ns)

    def tally_ns(
        self, batches: Int64s, contexts: Int64s, passes: Int64s, weights: Int64s
    ) -> tuple[Int64s, Int64s]:
        """Count the passes of many runs by duration."""
        import numpy as np  # noqa: PLC0415 - numpy costs start-up time that a small replay need not pay

        return np.array([self._decode_ns]), np.array([int((passes * weights).sum())])


@dataclass(frozen=True, slots=True)
class FixedTiming:
    """The same time for every prefill forward and for every decode forward.

    Raises `InputError` when a time is negative or not finite.
    """

    prefill_ms: float
    decode_ms: float

    def __post_init__(self) -> None:
        for name in ("prefill_ms", "decode_ms"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"timing_model.{name}: {value!r} must be finite and not negative")

    def timer(self, total_kv_tokens: int, prefill_speedup: float, decode_speedup: float) -> FixedTimer:
        """Bind to speed-up ratios; the KV capacity plays no part."""
        return _fixed_timer(self.prefill_ms, self.decode_ms, prefill_speedup, decode_speedup)


@lru_cache(maxsize=64)
def _fixed_timer(
    prefill_ms: float, decode_ms: float, prefill_speedup: float, decode_speedup: float
) -> FixedTimer:
    return FixedTimer(
        scaled_ns(duration_ns(prefill_ms), prefill_speedup), scaled_ns(duration_ns(decode_ms), decode_speedup)
    )
