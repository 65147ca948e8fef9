"""Scores candidates by what measuring them is expected to gain, and picks batches of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.spica.pool_gp.improvement import expected_gain

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from aisimulate.spica.pool_gp.considered import Expected
    from aisimulate.spica.pool_gp.model import Outlook

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

_LOWEST_CHANCE = 0.25
_BOLD = 3.0  # picks that explore see the deviations blown up by this much
_BOLD_PER_GROUP = 3
_FAR_BEHIND = 1e9  # more than any gain


def expected_gains(outlook: Outlook, known: Floats, boldness: float = 1.0) -> Floats:
    """Return what each candidate should gain on `known` (values, one row each), if it is feasible."""
    gains = expected_gain(outlook.means, boldness * outlook.deviations, known)
    gains = gains * outlook.chance
    # What is hardly feasible comes last, however much is expected beyond the edge of the feasible.
    return np.where(outlook.chance < _LOWEST_CHANCE, outlook.chance - 1.0, gains)


def pick_batch(
    outlook: Outlook,
    known: Floats,
    count: int,
    *,
    bold: Collection[int] = (),
    given: int = 0,
    groups: Ints | None = None,
) -> list[int]:
    """Pick `count` candidates one by one, each time believing that the model is right about the last.

    `bold` are the places in the batch that explore. The first `given` candidates are picked anyway. One of
    `groups` (a number per candidate) gets no more than half of a batch, as long as there are others.
    """
    chosen: list[int] = []
    for place in range(min(count, len(outlook.means))):
        if place < given:
            index = place
        else:
            gains = expected_gains(outlook, known, _BOLD if place in bold else 1.0)
            if groups is not None:
                gains[_crowded(groups, chosen, -(-count // 2))] -= _FAR_BEHIND
            gains[chosen] = -np.inf
            index = int(np.argmax(gains))
        chosen.append(index)
        known = np.concatenate([known, np.exp(outlook.means[index : index + 1])])
        outlook.believe(index)
    return chosen


def boldest(expected: Expected, known: Floats, groups: Ints, count: int) -> list[int]:
    """Return the rows that would gain most were the deviations much larger, few of each group."""
    gains = expected_gain(expected.means, _BOLD * expected.deviations, known) * expected.chance
    gains[expected.chance < _LOWEST_CHANCE] = -1.0
    seen: Counter[int] = Counter()
    rows: list[int] = []
    for row in np.argsort(-gains, kind="stable"):
        group = int(groups[row])
        seen[group] += 1
        if seen[group] <= _BOLD_PER_GROUP:
            rows.append(int(row))
        if len(rows) == count:
            break
    return rows


def _crowded(groups: Ints, chosen: list[int], most: int) -> NDArray[np.bool_]:
    """Tell which candidates are of a group of which `most` are chosen."""
    full = [group for group, count in Counter(groups[chosen].tolist()).items() if count >= most]
    return np.isin(groups, full)
