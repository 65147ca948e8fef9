"""The trace formats by name. A new format is one reader module and one row of `_READERS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError, UnsupportedError, nearest
from aisimulate.workload.mooncake import read_mooncake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from aisimulate.workload.loaded import LoadedTrace

# name -> (reader, whether it takes several files)
_READERS: dict[str, tuple[Callable[[Sequence[Path], int], LoadedTrace], bool]] = {
    "mooncake": (lambda paths, block_tokens: read_mooncake(paths[0], block_tokens), False),
}
_LATER = ("mooncake-delta", "agentic_mooncake", "applied_compute_agentic", "dynamo", "weka")

SUPPORTED_FORMATS = tuple(_READERS)
"""Formats that `load_trace` reads."""

TRACE_FORMATS = (*SUPPORTED_FORMATS, *_LATER)
"""All documented formats (spec 02 section 2)."""


def check_format(trace_format: str) -> None:
    """Refuse a trace format that is unknown (InputError) or not readable yet (UnsupportedError)."""
    if trace_format in _READERS:
        return
    if trace_format in _LATER:
        supported = ", ".join(SUPPORTED_FORMATS)
        raise UnsupportedError(f"trace format {trace_format!r} is not supported yet (supported: {supported})")
    known = ", ".join(TRACE_FORMATS)
    hint = nearest(trace_format, TRACE_FORMATS)
    raise InputError(f"trace format {trace_format!r} is unknown (known: {known}){hint}")


def load_trace(paths: Sequence[Path], trace_format: str, block_tokens: int) -> LoadedTrace:
    """Read a trace into sessions, in file order, with arrivals as authored (spec 02 section 2), and notes.

    `block_tokens` is the number of tokens that one content id stands for. Raises InputError, one line
    with file, line, field, value and rule.
    """
    check_format(trace_format)
    if type(block_tokens) is not int or block_tokens < 1:
        raise InputError(f"trace_block_size must be a whole number of at least 1, got {block_tokens}")
    if not paths:
        raise InputError("trace traffic needs at least one path")
    read, takes_several = _READERS[trace_format]
    if len(paths) > 1 and not takes_several:
        raise InputError(f"trace format {trace_format!r} takes exactly one file, got {len(paths)}")
    return read(paths, block_tokens)
