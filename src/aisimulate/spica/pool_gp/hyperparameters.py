"""Length scales, signal and noise of a Gaussian process: the most probable ones given the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

from aisimulate.spica.pool_gp.matern import correlations, slopes, squared_distances

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Priors on the logarithms (mean, standard deviation), for features scaled to about [0, 1] and values
# scaled to variance 1. Wide enough that a feature without effect gets a long scale and drops out.
_SIGNAL_PRIOR = (0.0, 1.0)
_NOISE_PRIOR = (np.log(0.02), 1.0)
_SCALE_DEVIATION = 1.3
_BOUNDS_SCALE = (np.log(0.02), np.log(60.0))
_BOUNDS_SIGNAL = (np.log(0.05), np.log(20.0))
_BOUNDS_NOISE = (np.log(1e-3), np.log(0.15))
_JITTER = 1e-8


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Natural logarithms of the length scales (one per feature), and of the signal and noise deviations."""

    log_scales: Floats
    log_signal: float
    log_noise: float

    @classmethod
    def start(cls, features: int) -> Hyperparameters:
        """Return the mode of the prior."""
        return cls(np.full(features, _scale_mean(features)), _SIGNAL_PRIOR[0], float(_NOISE_PRIOR[0]))

    @classmethod
    def from_vector(cls, vector: Floats) -> Hyperparameters:
        """Unpack what `vector` packed."""
        return cls(vector[:-2].copy(), float(vector[-2]), float(vector[-1]))

    @property
    def vector(self) -> Floats:
        """All of them in one array, scales first."""
        return np.concatenate([self.log_scales, [self.log_signal, self.log_noise]])

    @property
    def signal_variance(self) -> float:
        """Variance of the function's values."""
        return float(np.exp(2.0 * self.log_signal))

    @property
    def noise_variance(self) -> float:
        """Variance of what is observed around the function."""
        return float(np.exp(2.0 * self.log_noise)) + _JITTER


def fit_hyperparameters(x: Floats, y: Floats, start: Hyperparameters, iterations: int) -> Hyperparameters:
    """Climb from `start` to a mode of the posterior of the hyperparameters.

    `x` has one row of features per value of `y`, whose mean is about 0 and variance about 1.
    """
    features = x.shape[1]
    bounds = [_BOUNDS_SCALE] * features + [_BOUNDS_SIGNAL, _BOUNDS_NOISE]
    means = np.concatenate([np.full(features, _scale_mean(features)), [_SIGNAL_PRIOR[0], _NOISE_PRIOR[0]]])
    deviations = np.concatenate([np.full(features, _SCALE_DEVIATION), [_SIGNAL_PRIOR[1], _NOISE_PRIOR[1]]])
    found = minimize(
        _loss,
        np.clip(start.vector, *np.transpose(bounds)),
        args=(x, y, means, deviations),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": iterations},
    )
    return Hyperparameters.from_vector(found.x)


def _scale_mean(features: int) -> float:
    """The distance of two random points grows with the root of the dimension, so scales should too."""
    return float(np.log(0.5 * np.sqrt(features)))


def _loss(vector: Floats, x: Floats, y: Floats, means: Floats, deviations: Floats) -> tuple[float, Floats]:
    """Return the negative log posterior and its gradient (Rasmussen and Williams 2006, equation 5.9)."""
    parameters = Hyperparameters.from_vector(vector)
    scaled = x * np.exp(-parameters.log_scales)
    squares = squared_distances(scaled, scaled)
    signal = parameters.signal_variance * correlations(squares)
    lower = cholesky(
        signal + parameters.noise_variance * np.eye(len(y)), lower=True, overwrite_a=True, check_finite=False
    )
    inverse = cho_solve((lower, True), np.eye(len(y)), overwrite_b=True, check_finite=False)
    weights = inverse @ y
    misfit = inverse - np.outer(weights, weights)
    pull = misfit * (parameters.signal_variance * slopes(squares))
    by_scale = pull.sum(1) @ scaled**2 - np.einsum("ij,ij->j", scaled, pull @ scaled)
    by_signal = np.vdot(misfit, signal)
    by_noise = parameters.noise_variance * np.trace(misfit)
    away = (vector - means) / deviations
    loss = 0.5 * y @ weights + np.log(np.diag(lower)).sum() + 0.5 * away @ away
    gradient = np.concatenate([by_scale, [by_signal, by_noise]]) + away / deviations
    return float(loss), gradient
