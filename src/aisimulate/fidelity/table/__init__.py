"""Calibration from a benchmark table: means at a few loads, instead of a log of requests."""
