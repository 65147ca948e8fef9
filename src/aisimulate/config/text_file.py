"""Reading a text file whole: it must be UTF-8 and of limited size, whatever its name leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 2**30
"""Largest file."""

_PIECE_BYTES = 2**20


def read_text(path: Path, name: str) -> str:
    """Read a file; raise a one-line `InputError` that starts with `name` if it is no text, or too large.

    Raises OSError when it cannot be read. No text has a NUL in it, so a device like /dev/zero ends at once.
    """
    data = bytearray()
    with path.open("rb") as stream:
        while piece := stream.read(_PIECE_BYTES):
            if (nul := piece.find(0)) >= 0:
                raise InputError(f"{name} is not text: byte {len(data) + nul} is NUL")
            data += piece
            if len(data) > MAX_BYTES:
                raise InputError(f"{name} is larger than {MAX_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: byte {error.start}") from error
