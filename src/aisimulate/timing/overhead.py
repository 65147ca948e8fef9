"""Pass times with a constant on top of every pass: what the host does between forwards (docs/front-end.md).

A constant keeps what is exact of a run: k passes cost k times the constant more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.core.protocols import PassTimer
    from aisimulate.timing.ramps import Int64s


class OverheadTimer:
    """A timer each of whose passes lasts `overhead_ns` longer; one that prefills and decodes does so once."""

    __slots__ = ("_overhead_ns", "_timer", "beside_ns")

    def __init__(self, timer: PassTimer, overhead_ns: int) -> None:
        self._timer, self._overhead_ns = timer, overhead_ns
        self.beside_ns = timer.beside_ns

    def __reduce__(self) -> tuple[type[OverheadTimer], tuple[PassTimer, int]]:
        """Send the timer, not its methods, to another process."""
        return OverheadTimer, (self._timer, self._overhead_ns)

    @property
    def rises(self) -> bool:
        """Whether neither decoders nor prompts beside them shorten a pass: as without the overhead."""
        return self._timer.rises

    def prefill_ns(self, batch: int, mean_isl: int, mean_prefix: int) -> int:
        """Duration of a prefill forward; 0 when there is nothing to compute."""
        ns = self._timer.prefill_ns(batch, mean_isl, mean_prefix)
        return ns + self._overhead_ns if batch and mean_isl > mean_prefix else ns

    def decode_ns(self, batch: int, context_tokens: int) -> int:
        """Duration of one decode forward."""
        return self._timer.decode_ns(batch, context_tokens) + self._overhead_ns

    def fused_ns(self, spans: Sequence[tuple[int, int]], batch: int, context_tokens: int) -> int:
        """Duration of one forward over prefill chunks and a decode batch together."""
        return self._timer.fused_ns(spans, batch, context_tokens) + self._overhead_ns

    def run_ns(self, batch: int, context_tokens: int, passes: int) -> int:
        """Exact duration of a run."""
        return self._timer.run_ns(batch, context_tokens, passes) + passes * self._overhead_ns

    def run_floor_ns(self, batch: int, context_tokens: int, passes: int) -> int:
        """Give a lower bound of `run_ns`."""
        return self._timer.run_floor_ns(batch, context_tokens, passes) + passes * self._overhead_ns

    def passes_until(self, batch: int, context_tokens: int, passes: int, elapsed_ns: int) -> tuple[int, int]:
        """Find the first pass that ends at `elapsed_ns` or later, else `passes`; with its end."""
        low, high = 0, passes
        while low < high:
            middle = (low + high) // 2
            if self.run_ns(batch, context_tokens, middle) >= elapsed_ns:
                high = middle
            else:
                low = middle + 1
        return low, self.run_ns(batch, context_tokens, low)

    def durations_ns(self, batch: int, context_tokens: int, passes: int) -> list[int]:
        """List the duration of each pass of a run, in order."""
        overhead_ns = self._overhead_ns
        return [ns + overhead_ns for ns in self._timer.durations_ns(batch, context_tokens, passes)]

    def forwards_ns(self, batch: int, contexts: list[int]) -> list[int]:
        """List the durations of forwards of one batch."""
        overhead_ns = self._overhead_ns
        return [ns + overhead_ns for ns in self._timer.forwards_ns(batch, contexts)]

    def decodes_ns(self, batches: Int64s, contexts: Int64s) -> Int64s:
        """Durations of many decode forwards."""
        return self._timer.decodes_ns(batches, contexts) + self._overhead_ns

    def tally_ns(
        self, batches: Int64s, contexts: Int64s, passes: Int64s, weights: Int64s
    ) -> tuple[Int64s, Int64s]:
        """Count the passes of many runs by duration."""
        durations, counts = self._timer.tally_ns(batches, contexts, passes, weights)
        return durations + self._overhead_ns, counts
