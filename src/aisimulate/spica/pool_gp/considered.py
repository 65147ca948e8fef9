"""The candidates of one ask, with what the model says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple

import numpy as np

from aisimulate.spica.pool_gp.pool import Key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from aisimulate.spica.pool_gp.model import Outlook

    Floats = NDArray[np.float64]


class Expected(NamedTuple):
    """Expected gains, means and deviations of the logarithms, chance to be feasible; a row per candidate."""

    gains: Floats
    means: Floats
    deviations: Floats
    chance: Floats


class Considered(Generic[Key]):
    """Candidates by row."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self._known: set[Key] = set()
        self._parts: list[Expected] = []

    def add(self, keys: list[Key], outlook: Outlook, gains: Floats) -> None:
        """Append candidates."""
        self.keys += keys
        self._known.update(keys)
        self._parts.append(Expected(gains, outlook.means, outlook.deviations, outlook.chance))

    def without_known(self, keys: Iterable[Key]) -> list[Key]:
        """Keep the keys that are no candidates yet."""
        return [key for key in keys if key not in self._known]

    def best(self, count: int) -> list[Key]:
        """Return the candidates with the highest expected gains, the highest first."""
        if not self.keys:
            return []
        return [self.keys[row] for row in np.argsort(-self.expected().gains, kind="stable")[:count]]

    def expected(self) -> Expected:
        """Return what the model says of all candidates."""
        return Expected(*map(np.concatenate, zip(*self._parts, strict=True)))
