"""What an analytic screen tells the optimizer, and when it is not to be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

import numpy as np

from aisimulate.spica.pool_gp.fronts import front
from aisimulate.spica.pool_gp.pool import Key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_SLACK = 0.2  # how far behind the screened front, in every objective at once, a candidate may be
_WIDEST_RATIO = 1e4
_FEWEST = 12
_LOWEST_RANK_CORRELATION = 0.6
_HIGHEST_SHARE = 0.7


class Band(Generic[Key]):
    """The keys near the screened front. `floor` holds the least values that make a difference, by column."""

    def __init__(self, keys: list[Key], screened: Floats) -> None:
        self.floor = screened.max(0) / _WIDEST_RATIO
        self._keys = [keys[row] for row in near_to(screened[front(screened)], screened, _SLACK)]

    def draw(self, count: int, rng: np.random.Generator) -> list[Key]:
        """Draw keys at random."""
        return [self._keys[row] for row in rng.integers(0, len(self._keys), count)]


def near_to(best: Floats, screened: Floats, slack: float) -> NDArray[np.intp]:
    """Return the rows that are behind one of `best` by at most a share of `slack`, in every objective."""
    near = np.zeros(len(screened), dtype=bool)
    for point in best:
        near |= (screened >= point / (1.0 + slack)).all(1)
    return np.flatnonzero(near)


def contradicts(logs: Floats, prior: Floats) -> bool:
    """Whether measurements (logarithms, one row each) speak against their screen.

    A constant factor does no harm; the order must agree, and the ratio must vary less than the values do.
    """
    if len(logs) < _FEWEST:
        return False
    for measured, screened in zip(logs.T, prior.T, strict=True):
        spread = float(measured.std())
        if spread < 1e-9:
            continue
        if float((measured - screened).std()) > _HIGHEST_SHARE * spread:
            return True
        if _rank_correlation(measured, screened) < _LOWEST_RANK_CORRELATION:
            return True
    return False


def _rank_correlation(left: Floats, right: Floats) -> float:
    """Return Spearman's coefficient; ties are ranked in order, which is near enough for a verdict."""
    ranks = [np.argsort(np.argsort(values, kind="stable"), kind="stable") for values in (left, right)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
