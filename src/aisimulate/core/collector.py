"""Python's cycle collector, paused while a great many objects are made and hardly a cycle."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


# So many objects may be left behind before the collector has to look for cycles among them.
_MOST_LEFT = 200_000


class _Left:
    """How many objects earlier pauses left behind, cached or to be collected."""

    objects = 0


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the collector: it would look through all that is there again and again.

    What a pause leaves behind is collected before a later one, else a process that replays for hours would
    keep every replay it made.
    """
    was_enabled = gc.isenabled()
    if was_enabled and _Left.objects > _MOST_LEFT:
        gc.collect()
        _Left.objects = 0
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            _Left.objects += gc.get_count()[0]
            if gc.get_freeze_count() == 0:
                # Moves what is left (a cached trace, above all) to the oldest generation unseen, where the
                # collector would put it after looking through it twice.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
