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
            gc.enable()
