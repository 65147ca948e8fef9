"""Where samples go. Any callable that takes a sample will do; this one writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TextIO


class JsonLines:
    """Writes each sample as one line of JSON to a text stream, which stays open."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, sample: dict[str, Any]) -> None:
        """Write a sample; raises OSError when the stream cannot take it."""
        self._stream.write(json_line(sample))


def json_line(value: object) -> str:
    """Write a JSON value on a line of its own."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
