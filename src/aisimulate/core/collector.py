"""Python's cycle collector, paused while a great many objects are made and hardly a cycle."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the collector: it would look through all that is there again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_freeze_count() == 0:
                # Moves what is left (a cached trace, above all) to the oldest generation unseen, where the
                # collector would put it after looking through it twice.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
