"""Capacity of an engine, asked of the timing that the simulator itself uses (spec 03 section E1).

In a steady state a batch of `b` requests decodes, and with every pass b / osl of them are replaced, whose
prompts are computed besides. A pass then takes the decode forward and that share of a prompt; a request takes
osl passes. The share of an engine that a request takes up never grows with the batch, and passes never get
shorter, so the best batch is the largest one that fits and meets the bound: a binary search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisimulate.core.units import NS_PER_MS, NS_PER_S
from aisimulate.planner.settings import DECODE, PREFILL

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer
    from aisimulate.planner.model import Shape
    from aisimulate.planner.settings import EngineLimits


class ExactCapacity(NamedTuple):
    """Requests per second of a busy engine, its batch, and the time of a prompt (s)."""

    rps: float
    batch: int
    prompt_s: float


class ExactEngine:
    """An engine of `ranks` equal ranks with one timer."""

    def __init__(self, pool: str, timer: PassTimer, limits: EngineLimits, ranks: int = 1) -> None:
        self._pool = pool
        self._timer = timer
        self._ranks = ranks
        self._chunk = max(1, limits.batched_tokens or 1)
        self._seqs = max(1, limits.seqs or 1)
        self._kv_tokens = (limits.kv_tokens or 0) // ranks

    def capacity(self, shape: Shape, itl_ms: float | None = None) -> ExactCapacity:
        """Requests of a shape that the engine sustains; passes within `itl_ms` if one request alone is."""
        prompt_ns = 0 if self._pool == DECODE else self.prompt_ns(shape.computed_isl)
        if self._pool == PREFILL:
            return ExactCapacity(self._ranks * NS_PER_S / max(1, prompt_ns), 1, prompt_ns / NS_PER_S)
        osl = max(1.0, shape.osl / shape.accept_length)  # passes of a request
        batch = self._largest(shape, prompt_ns, osl, itl_ms)
        pass_ns = max(1.0, self._pass_ns(shape, prompt_ns, osl, batch))
        rps = self._ranks * batch / osl * NS_PER_S / pass_ns
        return ExactCapacity(rps, batch, prompt_ns / NS_PER_S)

    def prompt_ns(self, tokens: int) -> int:
        """Time to compute a prompt alone, chunk by chunk."""
        total = start = 0
        while start < tokens:
            end = min(tokens, start + self._chunk)
            total += self._timer.prefill_ns(1, end, start)
            start = end
        return total

    def _largest(self, shape: Shape, prompt_ns: int, osl: float, itl_ms: float | None) -> int:
        most = max(1, min(self._seqs, self._kv_tokens // max(1, shape.isl + shape.osl)))
        if itl_ms is None:
            return most
        bound_ns = itl_ms * NS_PER_MS * shape.accept_length
        low, high = 1, most
        while low < high:
            middle = (low + high + 1) // 2
            if self._pass_ns(shape, prompt_ns, osl, middle) <= bound_ns:
                low = middle
            else:
                high = middle - 1
        return low

    def _pass_ns(self, shape: Shape, prompt_ns: int, osl: float, batch: int) -> float:
        return self._timer.decode_ns(batch, batch * shape.context) + batch / osl * prompt_ns
