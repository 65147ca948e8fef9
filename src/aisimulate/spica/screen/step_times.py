"""Durations of single forwards from AI Configurator; a book asks for each decode once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.units import to_ms
from aisimulate.timing.aic.surface import AicTiming

if TYPE_CHECKING:
    from aisimulate.timing.aic.key import EngineKey


class EngineStepTimes:
    """Step times of one compiled engine, in ms. Raises `TimingError` where there are no data."""

    def __init__(self, key: EngineKey) -> None:
        self._timer = AicTiming(key, exact=True).timer(0, 1.0, 1.0)
        self._prefills: dict[tuple[int, int, int], float] = {}

    def prefill_ms(self, batch: int, new_tokens: int, prefix_tokens: int) -> float:
        """Time `batch` prompts whose last `new_tokens` are computed."""
        asked = batch, new_tokens, prefix_tokens
        known = self._prefills.get(asked)
        if known is None:
            length = new_tokens + prefix_tokens
            known = self._prefills[asked] = to_ms(self._timer.prefill_ns(batch, length, prefix_tokens))
        return known

    def decode_ms(self, batch: int, context_tokens: int) -> float:
        """Time one token each for `batch` sequences of a mean context."""
        return to_ms(self._timer.decode_ns(batch, batch * context_tokens))
