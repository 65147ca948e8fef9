"""Content ids of a loaded trace, packed: a million prompts must fit into memory."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def packed(ids: Iterable[int]) -> array[int]:
    """Pack ids of up to 64 bits, into 32 bits each where they fit.

    Raises TypeError for what is no whole number, OverflowError for ids below 0 or beyond 64 bits.
    """
    try:
        return array("I", ids)
    except OverflowError:
        return array("Q", ids)
