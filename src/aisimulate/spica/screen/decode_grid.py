"""Decode times of many engines over batch and context, for quick looks at many ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aisimulate.spica.screen.step_book import StepBook

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

NO_DATA_MS = 1e12
"""Stands for times that are not known: finite, so that a replay with it ends."""

# Between these contexts times go in straight lines, near enough.
_KNOTS = np.array([1, 1024, 4096, 16384, 65536, 262144])


class DecodeGrid:
    """Decode times of engines by number, for up to `most` sequences each, or `NO_DATA_MS`."""

    def __init__(self, book: StepBook, most: Ints) -> None:
        """Ask for the times of each engine up to its largest batch; 0 for an engine that is not needed."""
        self._width = int(most.max(initial=1)) + 1
        engines = np.repeat(np.arange(len(most)), most)
        batches = np.arange(len(engines)) - np.repeat(np.cumsum(most) - most, most) + 1
        table = np.full((len(_KNOTS), len(most), self._width), NO_DATA_MS)
        for place, context in enumerate(_KNOTS.tolist()):
            known = book.decode_ms(engines, batches, context)
            table[place, engines, batches] = np.where(np.isnan(known), NO_DATA_MS, known)
        table[:, :, 0] = table[:, :, min(1, self._width - 1)]
        self._last = most
        self._slopes = np.diff(table, axis=0).reshape(len(_KNOTS) - 1, -1) / np.diff(_KNOTS)[:, None]
        self._times = table.reshape(len(_KNOTS), -1)

    def decode_ms(self, engines: Ints, batches: Ints, contexts: Floats) -> Floats:
        """Time one token each for `batches` sequences (at most what was asked for) of a mean context."""
        where = engines * self._width + np.minimum(batches, self._last[engines])
        segment = np.searchsorted(_KNOTS[1:-1], contexts, "right")
        found: Floats = self._times[segment, where] + self._slopes[segment, where] * (
            contexts - _KNOTS[segment]
        )
        return found
