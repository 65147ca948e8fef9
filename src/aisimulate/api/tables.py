"""Tables of results: as HTML for notebooks, and as pandas' frames."""

from __future__ import annotations

import importlib
from html import escape
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table; every text in it is escaped."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    parts = f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f"<table>{parts}</table>"


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - pandas has no types here
    """Make a pandas DataFrame. Raises UnsupportedError where pandas is missing."""
    return _library("pandas").DataFrame(list(rows))


def figure(traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as above
    """Make a plotly Figure. Raises UnsupportedError where plotly is missing."""
    return _library("plotly.graph_objects").Figure({"data": list(traces), "layout": dict(layout)})


def _library(name: str) -> Any:  # noqa: ANN401 - a module without types
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedError(f"{name.partition('.')[0]} is needed for this: {error}") from error
