"""Noise that belongs to a thing for good: the same on every machine and in every run."""

from __future__ import annotations

import hashlib
import math


def log_normal(tag: object, deviation: float) -> float:
    """Return a factor whose logarithm is normal with `deviation`, decided by the text of `tag`."""
    digest = hashlib.blake2b(repr(tag).encode(), digest_size=16).digest()
    first, second = ((int.from_bytes(digest[at : at + 8], "little") + 0.5) / 2.0**64 for at in (0, 8))
    return math.exp(deviation * math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second))


def engine_bias(role: str, engine: str) -> float:
    """Return how much slower an engine is in truth than its screen says: about 10 %, fixed for each."""
    return log_normal(("bias", (role, tuple(engine.split("|")))), 0.10)
