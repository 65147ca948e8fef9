"""A Gaussian process that predicts one value at many candidates, and lets some of them be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from aisimulate.spica.pool_gp.hyperparameters import Hyperparameters, fit_hyperparameters
from aisimulate.spica.pool_gp.inputs import Inputs, add_offsets, offset_variance
from aisimulate.spica.pool_gp.matern import correlations, squared_distances

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_MOST_FITTED = 200  # Rows that choose the hyperparameters; all rows take part in predictions.
# Hyperparameters go on from the last ones, but now and then start afresh, to leave a poor mode.
_FRESH_FIT_EVERY = 4
_FRESH_ITERATIONS = 30
_LATER_ITERATIONS = 8


class GaussianProcess:
    """Learns one value as a function of numbers and labels. Values are centred and scaled inside."""

    _parameters: Hyperparameters

    def __init__(self) -> None:
        self._fits = 0

    def fit(self, x: Inputs, y: Floats) -> None:
        """Learn all rows of `x` with their values `y`."""
        self._mean, self._deviation = float(y.mean()), float(y.std()) or 1.0
        values = (y - self._mean) / self._deviation
        chosen = _spread(len(y))
        if self._fits % _FRESH_FIT_EVERY == 0:
            start, iterations = Hyperparameters.start(*x.columns), _FRESH_ITERATIONS
        else:
            start, iterations = self._parameters, _LATER_ITERATIONS
        self._fits += 1
        self._parameters = fit_hyperparameters(x[chosen], values[chosen], start, iterations)
        self._known = self._scale(x)
        covariance = self._covariance(self._known, self._known)
        covariance[np.diag_indices_from(covariance)] += self._parameters.noise_variance
        self._lower = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
        self._whitened = solve_triangular(self._lower, values, lower=True, check_finite=False)

    def _scale(self, x: Inputs) -> Inputs:
        return Inputs(x.numbers * np.exp(-self._parameters.log_scales), x.labels, x.weights)

    def _covariance(self, rows: Inputs, columns: Inputs) -> Floats:
        parameters = self._parameters
        shared = correlations(squared_distances(rows.numbers, columns.numbers))
        shared *= parameters.signal_variance
        if len(parameters.log_offsets):
            add_offsets(shared, rows, columns, parameters.offset_variances)
        return shared

    def at(self, x: Inputs, beliefs: int = 0) -> Prediction:
        """Predict at candidates `x`, with room for `beliefs` of them to be believed."""
        scaled = self._scale(x)
        known = len(self._known)
        shared = self._covariance(self._known, scaled)
        explained = np.empty((known + beliefs, len(x)))
        explained[:known] = solve_triangular(
            self._lower, shared, lower=True, overwrite_b=True, check_finite=False
        )
        mean = self._whitened @ explained[:known]
        return Prediction(self, scaled, mean, explained, known)


class Prediction:
    """Means and deviations of one value at candidates.

    After `believe(i)` the model holds the mean at candidate i for observed (a kriging believer): means
    stay, deviations near i shrink.
    """

    def __init__(
        self, process: GaussianProcess, scaled: Inputs, mean: Floats, explained: Floats, known: int
    ) -> None:
        self._process = process
        self._scaled = scaled
        self._explained = explained
        self._known = known
        parameters = process._parameters
        self.mean = process._mean + process._deviation * mean
        prior = parameters.signal_variance + offset_variance(scaled, parameters.offset_variances)
        self._variance = prior - np.einsum("ij,ij->j", explained[:known], explained[:known])

    @property
    def deviation(self) -> Floats:
        """Standard deviations of the function (noise excluded)."""
        return np.asarray(self._process._deviation * np.sqrt(np.maximum(self._variance, 1e-12)))

    def believe(self, index: int) -> None:
        """Take candidate `index` for observed at its mean."""
        explained = self._explained[: self._known]
        shared = self._process._covariance(self._scaled[slice(index, index + 1)], self._scaled)[0]
        shared -= explained[:, index] @ explained
        noise = self._process._parameters.noise_variance
        shared /= np.sqrt(max(self._variance[index], 0.0) + noise)
        self._explained[self._known] = shared
        self._known += 1
        self._variance -= shared**2


def _spread(count: int) -> NDArray[np.intp]:
    """Choose which rows fit the hyperparameters: the latest ones and an even share of the rest."""
    if count <= _MOST_FITTED:
        return np.arange(count)
    latest = _MOST_FITTED // 2
    early = np.linspace(0, count - latest - 1, _MOST_FITTED - latest).astype(np.intp)
    return np.concatenate([np.unique(early), np.arange(count - latest, count)])
