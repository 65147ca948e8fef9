"""Pass times with a factor for passes that prefill and one for those that only decode (spec 07 section 4.2).

A provider takes speed-up ratios when it is bound, and rounds to whole ns after them. A factor is the inverse
of a ratio, so scaled times keep every closed form of the provider. Where the factors differ, a provider is
bound twice, because the decoding part of a mixed pass goes by the factor of the pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.core.protocols import PassTimer, TimingModel


@dataclass(frozen=True, slots=True)
class ScaledTiming:
    """The times of `timing`, multiplied by `prefill_scale` where prompt tokens are computed in the pass.

    Passes that only decode are multiplied by `decode_scale`. With `half`, one forward over chunks and
    decoders lasts the mean of what it lasts as two forwards and as one. Raises `InputError` for a factor
    that is not above 0.
    """

    timing: TimingModel
    prefill_scale: float = 1.0
    decode_scale: float = 1.0
    half: bool = False

    def __post_init__(self) -> None:
        for name in ("prefill_scale", "decode_scale"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name}: {getattr(self, name)!r} must be finite and above 0")

    def timer(self, total_kv_tokens: int, prefill_speedup: float, decode_speedup: float) -> PassTimer:
        """Bind to a rank: its KV capacity in tokens and its speed-up ratios (1 or 0 = unscaled)."""
        prefill = (prefill_speedup or 1.0) / self.prefill_scale
        own, beside = ((decode_speedup or 1.0) / scale for scale in (self.decode_scale, self.prefill_scale))
        timer = self.timing.timer(total_kv_tokens, prefill, own)
        if own == beside and not self.half:
            return timer
        mixed = timer if own == beside else self.timing.timer(total_kv_tokens, prefill, beside)
        return MixedTimer(timer, mixed, half=self.half)


class MixedTimer:
    """A timer whose passes that prefill and decode are those of `mixed`, and all others those of `timer`."""

    __slots__ = (
        "_arguments",
        "beside_ns",
        "decode_ns",
        "decodes_ns",
        "durations_ns",
        "forwards_ns",
        "fused_ns",
        "passes_until",
        "prefill_ns",
        "run_floor_ns",
        "run_ns",
        "tally_ns",
    )

    rises = False  # passes that prefill are scaled by themselves

    def __init__(self, timer: PassTimer, mixed: PassTimer, *, half: bool) -> None:
        self._arguments = timer, mixed, half
        self.prefill_ns = timer.prefill_ns
        self.decode_ns = timer.decode_ns
        self.beside_ns = mixed.beside_ns
        self.fused_ns = self._half_ns if half else mixed.fused_ns
        self.run_ns = timer.run_ns
        self.run_floor_ns = timer.run_floor_ns
        self.passes_until = timer.passes_until
        self.durations_ns = timer.durations_ns
        self.forwards_ns = timer.forwards_ns
        self.decodes_ns = timer.decodes_ns
        self.tally_ns = timer.tally_ns

    def __reduce__(self) -> tuple[object, tuple[PassTimer, PassTimer, bool]]:
        """Send the timers, not their methods, to another process."""
        return _mixed_timer, self._arguments

    def _half_ns(self, spans: Sequence[tuple[int, int]], batch: int, context_tokens: int) -> int:
        """Mean of two forwards and one forward, rounded down."""
        _, mixed, _ = self._arguments
        count = len(spans)
        starts, ends = sum(start for start, _ in spans), sum(end for _, end in spans)
        apart_ns = mixed.prefill_ns(count, ends // count, starts // count)
        if batch:
            apart_ns += mixed.beside_ns(batch, context_tokens)
        return (apart_ns + mixed.fused_ns(spans, batch, context_tokens)) // 2


def _mixed_timer(timer: PassTimer, mixed: PassTimer, half: bool) -> MixedTimer:
    return MixedTimer(timer, mixed, half=half)
