"""The trace formats by name. A new format is one reader module and one row of `_READERS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from aisimulate.core.collector import paused_collector
from aisimulate.core.errors import InputError, UnsupportedError, nearest
from aisimulate.workload.agentic_mooncake import read_agentic_mooncake
from aisimulate.workload.applied_compute import read_applied_compute
from aisimulate.workload.azure import read_azure
from aisimulate.workload.bailian import read_bailian
from aisimulate.workload.burstgpt import read_burstgpt
from aisimulate.workload.dynamo import read_dynamo
from aisimulate.workload.format_hint import format_hint
from aisimulate.workload.lengths import read_lengths
from aisimulate.workload.loaded import DEFAULT_BLOCK_TOKENS
from aisimulate.workload.mooncake import read_mooncake
from aisimulate.workload.weka import read_weka
from aisimulate.workload.weka_basis import AUTO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from aisimulate.workload.loaded import LoadedTrace

    Reader = Callable[[Sequence[Path], int | None], LoadedTrace]


class _Format(NamedTuple):
    """How a format is read.

    `sized`: it says itself how many tokens a content id stands for. `blank`: it says nothing about content.
    `accumulates`: a row is only what its turn adds. `unit`: of its times; None where nobody can mistake it.
    """

    read: Reader
    several: bool = False
    sized: bool = False
    blank: bool = False
    accumulates: bool = False
    unit: Literal["ms", "s"] | None = "ms"


def _single(read: Callable[[Path, int], LoadedTrace]) -> Reader:
    """Read the one file of a format that does not say its block size."""
    return lambda paths, block_tokens: read(paths[0], block_tokens or DEFAULT_BLOCK_TOKENS)


_READERS = {
    "mooncake": _Format(_single(read_mooncake)),
    # The same rows; their prompts are added up by the driver.
    "mooncake-delta": _Format(_single(read_mooncake), accumulates=True),
    "dynamo": _Format(read_dynamo, several=True, sized=True),
    "azure": _Format(lambda paths, _: read_azure(paths[0]), blank=True, unit=None),
    "burstgpt": _Format(lambda paths, _: read_burstgpt(paths[0]), blank=True, unit="s"),
    "bailian": _Format(
        lambda paths, block_tokens: read_bailian(paths[0], block_tokens), sized=True, unit="s"
    ),
    "lengths": _Format(lambda paths, _: read_lengths(paths[0]), blank=True, unit=None),
    "agentic_mooncake": _Format(
        lambda paths, block_tokens: read_agentic_mooncake(paths[0], block_tokens), sized=True, unit=None
    ),
    "applied_compute_agentic": _Format(_single(read_applied_compute), unit=None),
    "weka": _Format(lambda paths, block_tokens: read_weka(paths[0], block_tokens), sized=True, unit=None),
}

TRACE_FORMATS = tuple(_READERS)
"""All formats that `load_trace` reads (spec 02 section 2)."""

SIZED_FORMATS = frozenset(name for name, known in _READERS.items() if known.sized or known.blank)
"""Formats that need no `trace_block_size`, because nearly all of their traces say it."""

BLANK_FORMATS = frozenset(name for name, known in _READERS.items() if known.blank)
"""Formats that say nothing about content."""

ACCUMULATING_FORMATS = frozenset(name for name, known in _READERS.items() if known.accumulates)
"""Formats whose prompts are all that was said before and the row's own text."""

TIME_UNITS = {name: known.unit for name, known in _READERS.items() if known.unit is not None}
"""Units of the times of a format, unless nobody can mistake them."""


def check_format(trace_format: str) -> None:
    """Refuse a trace format that nobody reads. Raises InputError with the known ones and the nearest."""
    if trace_format not in _READERS:
        known = ", ".join(TRACE_FORMATS)
        hint = nearest(trace_format, TRACE_FORMATS)
        raise InputError(f"trace format {trace_format!r} is unknown (known: {known}){hint}")


def load_trace(
    paths: Sequence[Path], trace_format: str, block_tokens: int | None = None, nested_basis: str = AUTO
) -> LoadedTrace:
    """Read a trace into sessions, in file order, with arrivals as authored (spec 02 section 2), and notes.

    `block_tokens` is the number of tokens that one content id stands for; None takes what the format says,
    else 512. `nested_basis` is how times inside of subagents count (weka only). Raises InputError, one
    line with file, line, field, value and rule.
    """
    check_format(trace_format)
    if block_tokens is not None and (type(block_tokens) is not int or block_tokens < 1):
        raise InputError(f"trace_block_size must be a whole number of at least 1, got {block_tokens}")
    if not paths:
        raise InputError("trace traffic needs at least one path")
    known = _READERS[trace_format]
    if len(paths) > 1 and not known.several:
        raise InputError(f"trace format {trace_format!r} takes exactly one file, got {len(paths)}")
    if known.blank and block_tokens not in (None, DEFAULT_BLOCK_TOKENS):
        raise InputError(
            f"trace_block_size {block_tokens} has no effect: trace format {trace_format!r} has no content ids"
        )
    with paused_collector():
        try:
            if trace_format == "weka":
                return read_weka(paths[0], block_tokens, nested_basis)
            return known.read(paths, block_tokens)
        except UnsupportedError:
            raise
        except InputError as error:
            hint = wrong_format_hint(paths, trace_format, block_tokens)
            if not hint:
                raise
            raise InputError(f"{error}{hint}") from None


def wrong_format_hint(paths: Sequence[Path], trace_format: str, block_tokens: int | None = None) -> str:
    """Say of a trace with problems that it may be of another format; empty when it hardly is."""
    others = [name for name in TRACE_FORMATS if name != trace_format]
    return format_hint(
        paths[0], trace_format, others, lambda path, name: _READERS[name].read([path], block_tokens)
    )
