"""The lines of a text file, plain or gzipped, read one after the other: a file need not fit into memory."""

from __future__ import annotations

import gzip
import zlib
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from aisimulate.core.errors import InputError
from aisimulate.core.shown import MAX_PATH_CHARS, cut, show_path

if TYPE_CHECKING:
    from collections.abc import Iterator


_NEWLINE = ord("\n")
_GZIP = b"\x1f\x8b"

BOM = b"\xef\xbb\xbf"
"""The mark that some programs write before UTF-8; it belongs to no row."""

MAX_LINE_BYTES = 2**28
"""Longest line. A device such as /dev/zero has one without end."""


def text_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (1-based physical line, its bytes) for each line that is not blank; gzip is unpacked.

    Raises InputError for a file that cannot be read or holds no request.
    """
    found = False
    for number, line in numbered_lines(path):
        if not line.isspace():
            found = True
            yield number, line
    if not found:
        raise InputError(f"{path}: the file contains no requests")


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (1-based physical line, its bytes) for each line; gzip is unpacked.

    Raises InputError for a file that cannot be read.
    """
    number = 0
    with _open(path) as file, _unpacked(file) as stream:
        try:
            for number, line in enumerate(iter(partial(stream.readline, MAX_LINE_BYTES + 1), b""), 1):
                if len(line) > MAX_LINE_BYTES:
                    raise InputError(f"{path}:{number}: the line is longer than {MAX_LINE_BYTES} bytes")
                yield number, line
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}:{number + 1}: cannot be read: {_reason(error)}") from None


def text_batches(path: Path, batch_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield (1-based number of the first, whole lines of about `batch_bytes` together), blank ones too.

    Raises InputError for a file that cannot be read.
    """
    number = 0
    with _open(path) as file, _unpacked(file) as stream:
        try:
            while text := stream.read(batch_bytes):
                text += stream.readline(MAX_LINE_BYTES)
                if len(text) > MAX_LINE_BYTES:
                    break
                yield number + 1, text
                number += _count_lines(text)
            else:
                return
        except (OSError, EOFError, zlib.error):
            pass
    # The lines before the place where reading fails, or where one may be too long.
    for later, line in numbered_lines(path):
        if later > number:
            yield later, line


def _count_lines(text: bytes) -> int:
    import numpy as np  # noqa: PLC0415 - numpy costs start-up time; `bytes.count` goes byte by byte

    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _NEWLINE))


def relative_hint(path: Path) -> str:
    """Say for a relative path, in parentheses, where it was looked for."""
    if path.is_absolute():
        return ""
    return f" (relative paths are taken from the current directory, {Path.cwd()})"


def _open(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise InputError(f"{cut(str(path), MAX_PATH_CHARS)}: no such file{relative_hint(path)}") from None
    except OSError as error:
        raise InputError(f"{cut(str(path), MAX_PATH_CHARS)}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # a NUL character in the name
        raise InputError(f"{show_path(path)}: cannot be read: {error}") from None


def _unpacked(file: BufferedReader) -> IO[bytes]:
    try:
        is_gzip = file.peek(len(_GZIP))[: len(_GZIP)] == _GZIP
    except OSError:
        return file  # reading says why
    stream = cast("BufferedReader", gzip.GzipFile(fileobj=file)) if is_gzip else file
    try:
        if stream.peek(len(BOM)).startswith(BOM):
            stream.read(len(BOM))
    except (OSError, EOFError, zlib.error):
        pass  # reading says why
    return stream


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
