"""Digests of traces."""

from __future__ import annotations


def blake3_hex(data: bytes) -> str:
    """Hash `data` with BLAKE3; 64 hexadecimal digits."""
    from aisimulate.workload.blake3 import digest  # noqa: PLC0415 - numpy costs start-up time

    return digest(data).hex()
