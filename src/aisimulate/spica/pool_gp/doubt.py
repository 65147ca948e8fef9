"""What candidates share that is not known, beside what a Gaussian process of each objective does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Doubt:
    """Unknowns with a common normal distribution on which the logarithms of candidates depend linearly.

    `slopes` (objectives, candidates, unknowns) say how; `errors` (objectives, candidates) are the deviations
    of what is measured around that.
    """

    def __init__(self, slopes: Floats, covariance: Floats, errors: Floats) -> None:
        self._slopes, self._covariance, self._errors = slopes, covariance, errors
        self.variances = self._spread()

    def _spread(self) -> Floats:
        """Return the variances that follow, shape (candidates, objectives)."""
        found = np.einsum("kij,kij->ik", self._slopes @ self._covariance, self._slopes)
        return np.asarray(np.maximum(found, 0.0))

    def believe(self, index: int) -> None:
        """Take candidate `index` for measured: what is expected stays, less is in doubt (a Kalman step)."""
        slopes = self._slopes[:, index]
        moved = slopes @ self._covariance
        noise = np.diag(self._errors[:, index] ** 2)
        self._covariance = self._covariance - moved.T @ np.linalg.solve(moved @ slopes.T + noise, moved)
        self.variances = self._spread()
