"""How long the first tokens of a prompt take to compute, for quick looks at many prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aisimulate.core.errors import AISimulateError
from aisimulate.spica.screen.decode_grid import NO_DATA_MS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aisimulate.spica.screen.step_book import StepTimes

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_STEP_TOKENS = 512


class PromptWork:
    """Time to compute prompts in passes of at most `room` tokens, up to `longest` tokens.

    What a cached prefix spares is the time its tokens would take. `bend` is the part of the time that grows
    with the square of the tokens, in ms. `NO_DATA_MS` where the engine has no data.
    """

    def __init__(self, engine: StepTimes, room: int, longest: int) -> None:
        every, full = np.arange(1, longest, _STEP_TOKENS), np.arange(room, longest, room)
        self._knots = np.unique(np.concatenate([every, full, full + 1, [longest]]))
        try:
            self._times = np.array(_running_ms(engine, room, self._knots.tolist()))
        except AISimulateError:
            self._times = np.full(len(self._knots), NO_DATA_MS)
        self.bend = self._bend(room)

    def _bend(self, room: int) -> float:
        """Tell how much more, per square of tokens, one prompt takes than two of half its length."""
        most = min(room, int(self._knots[-1]))
        whole, half = np.interp([most, most // 2], self._knots, self._times)
        return max(0.0, float(whole - 2 * half)) / (most * most / 2)

    def prefill_ms(self, prompts: Ints, reused: Ints) -> Floats:
        """Time prompts of which the first `reused` tokens are in the cache."""
        spared = np.where(reused > 0, np.interp(reused, self._knots, self._times), 0.0)
        whole = np.interp(prompts, self._knots, self._times)
        left: Floats = np.maximum(whole - spared, self._times[0])
        return left


def _running_ms(engine: StepTimes, room: int, tokens: list[int]) -> list[float]:
    """Time the first `tokens` tokens (rising) of a prompt that is computed in passes of `room`."""
    found, whole_ms, done = [], 0.0, 0
    for count in tokens:
        while count - done > room:
            whole_ms += engine.prefill_ms(1, room, done)
            done += room
        found.append(whole_ms + engine.prefill_ms(1, count - done, done))
    return found
