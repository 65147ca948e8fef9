"""Providers of pass times; measured data are in `aic`."""

from aisimulate.timing.fixed import FixedTiming
from aisimulate.timing.linear import LinearTiming
from aisimulate.timing.polynomial import PolynomialTiming
from aisimulate.timing.scaled import ScaledTiming

__all__ = ["FixedTiming", "LinearTiming", "PolynomialTiming", "ScaledTiming"]
