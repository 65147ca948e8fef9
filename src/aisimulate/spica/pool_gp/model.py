"""What has been learnt so far: one Gaussian process per objective, and one for feasibility."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from aisimulate.spica.pool_gp.gaussian_process import GaussianProcess

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aisimulate.spica.pool_gp.doubt import Doubt
    from aisimulate.spica.pool_gp.gaussian_process import Prediction
    from aisimulate.spica.pool_gp.inputs import Inputs

    Floats = NDArray[np.float64]

# Infeasible points needed before feasibility is worth a model.
_FEWEST_INFEASIBLE = 2


def squash_bad_half(values: Floats) -> Floats:
    """Compress what lies below the median, so that the model spends its shape on the good half.

    Order is kept: a distance d below the median becomes s log(1 + d / s), s the spread of the good half.
    """
    middle = float(np.median(values))
    spread = float(np.mean(values[values >= middle] - middle)) or 1.0
    below = np.minimum(values - middle, 0.0)
    return np.where(values < middle, middle - spread * np.log1p(-below / spread), values)


class Model:
    """Predicts the logarithms of the objectives, and the chance that a configuration is feasible."""

    def __init__(self, objectives: int) -> None:
        self._processes = [GaussianProcess() for _ in range(objectives)]
        self._feasibility = GaussianProcess()
        self._knows_infeasible = False

    def fit(self, x: Inputs, logs: Floats, prior: Floats | None, infeasible: Inputs) -> None:
        """Learn logarithms of objectives (n, objectives) at `x`, as ratios to `prior` if there is one."""
        ratios = logs if prior is None else logs - prior
        for column, process in enumerate(self._processes):
            values = ratios[:, column]
            if prior is None and len(self._processes) == 1:
                values = squash_bad_half(values)
            process.fit(x, values)
        self._knows_infeasible = len(infeasible) >= _FEWEST_INFEASIBLE
        if self._knows_infeasible:
            labels = np.concatenate([np.ones(len(x)), -np.ones(len(infeasible))])
            order = _mixed(len(x), len(infeasible))
            self._feasibility.fit(x.joined(infeasible)[order], labels[order])

    def at(self, x: Inputs, prior: Floats | None, beliefs: int) -> Outlook:
        """Predict at candidates, of which up to `beliefs` will be believed."""
        predictions = [process.at(x, beliefs) for process in self._processes]
        return Outlook(predictions, prior, self._chance(x))

    def _chance(self, x: Inputs) -> Floats:
        if not self._knows_infeasible:
            return np.ones(len(x))
        prediction = self._feasibility.at(x)
        return np.asarray(ndtr(prediction.mean / np.sqrt(0.1 + prediction.deviation**2)))


class Outlook:
    """Predictions of a model at a set of candidates; `doubt` is what they leave out."""

    def __init__(self, predictions: list[Prediction], prior: Floats | None, chance: Floats) -> None:
        self.doubt: Doubt | None = None
        self._predictions = predictions
        self.chance = chance
        self.means = np.column_stack([prediction.mean for prediction in predictions])
        if prior is not None:
            self.means += prior

    @property
    def deviations(self) -> Floats:
        """Standard deviations of the logarithms, (candidates, objectives)."""
        own = np.column_stack([prediction.deviation for prediction in self._predictions])
        return own if self.doubt is None else np.sqrt(own**2 + self.doubt.variances)

    def believe(self, index: int) -> None:
        """Take candidate `index` for measured at its means."""
        for prediction in self._predictions:
            prediction.believe(index)
        if self.doubt is not None:
            self.doubt.believe(index)


def _mixed(feasible: int, infeasible: int) -> NDArray[np.intp]:
    """Order two kinds of rows so that any cut through the middle has both."""
    places = np.concatenate([np.linspace(0, 1, feasible), np.linspace(0, 1, infeasible)])
    return np.argsort(places, kind="stable")
