"""Estimates of candidates by formulas, without a replay (spec 08)."""
