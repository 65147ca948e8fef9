"""Fitting pass times to a log of requests (spec 07 section 4.2)."""
