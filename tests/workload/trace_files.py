"""Writing small traces, and what a reader says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisimulate.core.errors import InputError
from aisimulate.workload.formats import load_trace
from aisimulate.workload.loaded import LoadedTrace


def load(folder: Path, trace_format: str, text: str, block_tokens: int | None = None) -> LoadedTrace:
    """Read `text` as the file t of `folder`."""
    path = folder / "t"
    path.write_text(text)
    return load_trace([path], trace_format, block_tokens)


def refusal(folder: Path, trace_format: str, text: str, block_tokens: int | None = None) -> str:
    """What is wrong with `text`; the file is called t."""
    with pytest.raises(InputError) as caught:
        load(folder, trace_format, text, block_tokens)
    return str(caught.value).replace(f"{folder}/", "")


def starts(trace: LoadedTrace) -> list[tuple[str | None, float | None]]:
    """Names and arrivals of the sessions."""
    return [(session.session_id, session.arrival_ms) for session in trace.sessions]


def remarks(folder: Path, trace: LoadedTrace) -> list[str]:
    """What the trace remarks; the file is called t."""
    return [text.replace(f"{folder}/", "") for text in trace.remarks]
