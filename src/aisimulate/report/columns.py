"""Plain columns of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Sequence


def aligned(rows: Sequence[Sequence[str]], to_right: Container[int] = ()) -> list[str]:
    """Pad the cells of each column to one width, two spaces apart; `to_right` are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pads = [str.rjust if number in to_right else str.ljust for number in range(len(widths))]
    return [
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip()
        for row in rows
    ]
