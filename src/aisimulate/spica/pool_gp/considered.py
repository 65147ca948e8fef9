"""The candidates of one ask, with what the model says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

import numpy as np

from aisimulate.spica.pool_gp.pool import Key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from aisimulate.spica.pool_gp.model import Outlook

    Floats = NDArray[np.float64]


class Considered(Generic[Key]):
    """Candidates by row: expected gains, means and deviations of the logarithms, chance to be feasible."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self._known: set[Key] = set()
        self._parts: list[tuple[Floats, Floats, Floats, Floats]] = []

    def add(self, keys: list[Key], outlook: Outlook, gains: Floats) -> None:
        """Append candidates."""
        self.keys += keys
        self._known.update(keys)
        self._parts.append((gains, outlook.means, outlook.deviations, outlook.chance))

    def without_known(self, keys: Iterable[Key]) -> list[Key]:
        """Keep the keys that are no candidates yet."""
        return [key for key in keys if key not in self._known]

    def best(self, count: int) -> list[Key]:
        """Return the candidates with the highest expected gains, the highest first."""
        if not self.keys:
            return []
        return [self.keys[row] for row in np.argsort(-self.gains, kind="stable")[:count]]

    @property
    def gains(self) -> Floats:
        """Expected gains."""
        return np.concatenate([part[0] for part in self._parts])

    @property
    def means(self) -> Floats:
        """Means of the logarithms of the objectives."""
        return np.concatenate([part[1] for part in self._parts])

    @property
    def deviations(self) -> Floats:
        """Deviations of the logarithms of the objectives."""
        return np.concatenate([part[2] for part in self._parts])

    @property
    def chance(self) -> Floats:
        """Chances to be feasible."""
        return np.concatenate([part[3] for part in self._parts])
