"""Providers of pass times; measured data are in `aic`."""

from aisimulate.timing.fixed import FixedTiming
from aisimulate.timing.polynomial import PolynomialTiming

__all__ = ["FixedTiming", "PolynomialTiming"]
