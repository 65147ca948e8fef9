"""The first configurations to measure, before anything is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aisimulate.spica.pool_gp.fronts import layers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def spread_over_front(screened: Floats, wanted: int) -> list[int]:
    """Choose `wanted` rows of the screened front, evenly apart in the logarithms, the ends included.

    One objective: the best rows. When the front is smaller, the next layers follow.
    """
    if screened.shape[1] == 1:
        return [int(row) for row in np.argsort(-screened[:, 0], kind="stable")[:wanted]]
    chosen: list[int] = []
    for layer in layers(screened, wanted):
        picked = far_apart(np.log(screened[layer]), wanted - len(chosen))
        chosen += [int(layer[row]) for row in picked]
    return chosen


def far_apart(places: Floats, wanted: int) -> list[int]:
    """Pick rows one by one, each as far as possible from those before, the largest in column 0 first."""
    extent = np.ptp(places, axis=0)
    places = places / np.where(extent > 0, extent, 1.0)
    picked: list[int] = []
    nearest = places[:, 0].copy()
    for _ in range(min(wanted, len(places))):
        row = int(np.argmax(nearest))
        if not picked:
            nearest = np.full(len(places), np.inf)
        picked.append(row)
        nearest = np.minimum(nearest, ((places - places[row]) ** 2).sum(1))
        nearest[picked] = -1.0
    return picked
