"""Length scales, signal and noise of a Gaussian process: the most probable ones given the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

from aisimulate.spica.pool_gp.inputs import Inputs, add_offsets
from aisimulate.spica.pool_gp.matern import correlations, slopes, squared_distances

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Priors on the logarithms (mean, standard deviation), for features scaled to about [0, 1] and values
# scaled to variance 1. Wide enough that a feature without effect gets a long scale and drops out.
_SIGNAL_PRIOR = (0.0, 1.0)
_NOISE_PRIOR = (np.log(0.02), 1.0)
_SCALE_DEVIATION = 1.3
_OFFSET_PRIOR = (np.log(0.2), 1.0)
_BOUNDS_SCALE = (np.log(0.02), np.log(60.0))
_BOUNDS_SIGNAL = (np.log(0.05), np.log(20.0))
_BOUNDS_OFFSET = (np.log(1e-3), np.log(5.0))
_BOUNDS_NOISE = (np.log(1e-3), np.log(0.5))
_JITTER = 1e-8


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Natural logarithms: length scales (one per number), deviations of offsets (one per label), and the
    deviations of the signal and of the noise.
    """

    log_scales: Floats
    log_offsets: Floats
    log_signal: float
    log_noise: float

    @classmethod
    def start(cls, numbers: int, labels: int) -> Hyperparameters:
        """Return the mode of the prior."""
        scales = np.full(numbers, _scale_mean(numbers))
        offsets = np.full(labels, _OFFSET_PRIOR[0])
        return cls(scales, offsets, _SIGNAL_PRIOR[0], float(_NOISE_PRIOR[0]))

    @classmethod
    def from_vector(cls, vector: Floats, labels: int) -> Hyperparameters:
        """Unpack what `vector` packed."""
        numbers = len(vector) - 2 - labels
        return cls(vector[:numbers].copy(), vector[numbers:-2].copy(), float(vector[-2]), float(vector[-1]))

    @property
    def vector(self) -> Floats:
        """All of them in one array, scales first."""
        return np.concatenate([self.log_scales, self.log_offsets, [self.log_signal, self.log_noise]])

    @property
    def signal_variance(self) -> float:
        """Variance of the function's values, offsets excluded."""
        return float(np.exp(2.0 * self.log_signal))

    @property
    def offset_variances(self) -> Floats:
        """Variances of the offsets."""
        return np.asarray(np.exp(2.0 * self.log_offsets))

    @property
    def noise_variance(self) -> float:
        """Variance of what is observed around the function."""
        return float(np.exp(2.0 * self.log_noise)) + _JITTER


def fit_hyperparameters(x: Inputs, y: Floats, start: Hyperparameters, iterations: int) -> Hyperparameters:
    """Climb from `start` to a mode of the posterior of the hyperparameters.

    `x` has one row per value of `y`, whose mean is about 0 and variance about 1.
    """
    numbers, labels = x.columns
    bounds = [_BOUNDS_SCALE] * numbers + [_BOUNDS_OFFSET] * labels + [_BOUNDS_SIGNAL, _BOUNDS_NOISE]
    means = Hyperparameters.start(numbers, labels).vector
    deviations = np.concatenate(
        [
            np.full(numbers, _SCALE_DEVIATION),
            np.full(labels, _OFFSET_PRIOR[1]),
            [_SIGNAL_PRIOR[1], _NOISE_PRIOR[1]],
        ]
    )
    found = minimize(
        _loss,
        np.clip(start.vector, *np.transpose(bounds)),
        args=(x, y, means, deviations),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": iterations},
    )
    return Hyperparameters.from_vector(found.x, labels)


def _scale_mean(features: int) -> float:
    """The distance of two random points grows with the root of the dimension, so scales should too."""
    return float(np.log(0.5 * np.sqrt(features)))


def _loss(vector: Floats, x: Inputs, y: Floats, means: Floats, deviations: Floats) -> tuple[float, Floats]:
    """Return the negative log posterior and its gradient (Rasmussen and Williams 2006, equation 5.9)."""
    parameters = Hyperparameters.from_vector(vector, x.columns[1])
    scaled = x.numbers * np.exp(-parameters.log_scales)
    squares = squared_distances(scaled, scaled)
    signal = parameters.signal_variance * correlations(squares)
    covariance = signal.copy()
    add_offsets(covariance, x, x, parameters.offset_variances)
    covariance[np.diag_indices_from(covariance)] += parameters.noise_variance
    lower = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
    inverse = cho_solve((lower, True), np.eye(len(y)), overwrite_b=True, check_finite=False)
    weights = inverse @ y
    misfit = inverse - np.outer(weights, weights)
    pull = misfit * (parameters.signal_variance * slopes(squares))
    by_scale = pull.sum(1) @ scaled**2 - np.einsum("ij,ij->j", scaled, pull @ scaled)
    by_offset = parameters.offset_variances * _offset_slopes(misfit, x)
    by_signal = np.vdot(misfit, signal)
    by_noise = parameters.noise_variance * np.trace(misfit)
    away = (vector - means) / deviations
    loss = 0.5 * y @ weights + np.log(np.diag(lower)).sum() + 0.5 * away @ away
    gradient = np.concatenate([by_scale, by_offset, [by_signal, by_noise]]) + away / deviations
    return float(loss), gradient


def _offset_slopes(misfit: Floats, x: Inputs) -> Floats:
    """Return the derivatives by the variances of the offsets, twice the loss's."""
    slopes = []
    for labels in x.labels.T:
        pulls = np.where(labels[:, None] == labels, misfit, 0.0) @ x.weights
        slopes.append(np.einsum("ij,ij->j", x.weights, pulls))
    return np.concatenate(slopes) if slopes else np.empty(0)
