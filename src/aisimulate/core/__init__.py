"""Shared vocabulary of every layer: errors, units, value types, protocols and random streams."""
