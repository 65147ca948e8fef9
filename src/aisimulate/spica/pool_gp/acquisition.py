"""Scores candidates by what measuring them is expected to gain, and picks batches of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aisimulate.spica.pool_gp.improvement import expected_gain

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from aisimulate.spica.pool_gp.model import Outlook

    Floats = NDArray[np.float64]

_LOWEST_CHANCE = 0.25
_BOLD = 3.0  # picks that explore see the deviations blown up by this much


def expected_gains(outlook: Outlook, known: Floats, boldness: float = 1.0) -> Floats:
    """Return what each candidate should gain on `known` (values, one row each), if it is feasible."""
    gains = expected_gain(outlook.means, boldness * outlook.deviations, known)
    gains = gains * outlook.chance
    # What is hardly feasible comes last, however much is expected beyond the edge of the feasible.
    return np.where(outlook.chance < _LOWEST_CHANCE, outlook.chance - 1.0, gains)


def pick_batch(
    outlook: Outlook, known: Floats, count: int, bold: Collection[int] = (), given: int = 0
) -> list[int]:
    """Pick `count` candidates one by one, each time believing that the model is right about the last.

    `bold` are the places in the batch that explore. The first `given` candidates are picked anyway.
    """
    chosen: list[int] = []
    for place in range(min(count, len(outlook.means))):
        if place < given:
            index = place
        else:
            gains = expected_gains(outlook, known, _BOLD if place in bold else 1.0)
            gains[chosen] = -np.inf
            index = int(np.argmax(gains))
        chosen.append(index)
        known = np.concatenate([known, np.exp(outlook.means[index : index + 1])])
        outlook.believe(index)
    return chosen
