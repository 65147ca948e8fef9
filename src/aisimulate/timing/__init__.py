"""Providers of pass times. `aic` (measured data) is imported only by those who use it."""

from aisimulate.timing.fixed import FixedTiming
from aisimulate.timing.polynomial import PolynomialTiming

__all__ = ["FixedTiming", "PolynomialTiming"]
