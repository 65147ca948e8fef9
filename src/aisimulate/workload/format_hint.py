"""What to say of a trace that was most likely written in another format than the one it was read as."""

from __future__ import annotations

from contextvars import Context
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.workload.lines import text_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aisimulate.workload.loaded import LoadedTrace

    Read = Callable[[Path, str], LoadedTrace]

_HEAD_LINES = 2  # a CSV has a header
_WHOLE_BYTES = 1 << 20  # a JSON document of one object or array is read as a whole up to this size
DEFAULT_FORMAT = "mooncake"
"""The format that may be one that nobody chose."""

_STRANGE = ("not JSON", " is missing", "must be a JSON object", "expected '['")
"""What readers say of rows that are none of theirs."""


def format_hint(path: Path, trace_format: str, formats: Sequence[str], read: Read) -> str:
    """Name the format that was assumed, how to choose, and which one the first rows fit.

    Empty when the first rows are of the assumed format, so that something else is wrong, and when they
    cannot be read at all. `read` reads a file as a format and raises InputError.
    """
    try:
        with TemporaryDirectory() as folder:
            sample = _sample(path, Path(folder))
            problem = _outcome(read, sample, trace_format)
            if not isinstance(problem, str):
                return ""
            found = {name: _outcome(read, sample, name) for name in formats}
    except (OSError, ValueError):
        return ""
    # A row with fields that mean nothing to a format is not of it.
    fitting = [name for name, notes in found.items() if notes == 0]
    if not fitting and (trace_format != DEFAULT_FORMAT or not any(text in problem for text in _STRANGE)):
        return ""
    fit = f"; the first rows fit {fitting[0]!r}" if fitting else ""
    return f" (read as trace_format {trace_format!r}, see --trace-format{fit})"


def _sample(path: Path, folder: Path) -> Path:
    """Copy the first rows; a small JSON document is taken as it is."""
    if path.suffix == ".json" and path.stat().st_size <= _WHOLE_BYTES:
        return path
    sample = folder / f"head{'.jsonl' if path.suffix == '.gz' else path.suffix}"
    sample.write_bytes(b"".join(line for _, line in islice(text_lines(path), _HEAD_LINES)))
    return sample


def _outcome(read: Read, path: Path, trace_format: str) -> int | str:
    """Count the notes of a reading, or tell what is wrong with it."""
    try:
        # A context of its own: the problems of a guess are nobody's.
        return len(Context().run(read, path, trace_format).notes)
    except InputError as error:
        return str(error)
