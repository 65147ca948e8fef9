"""The real time that a search may take. It decides when a search ends, never what a replay gives."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class TimeBudget:
    """Starts to run when it is made; `seconds` None never ends."""

    def __init__(self, seconds: float | None = None, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock_s = clock_s
        self._end_s = None if seconds is None else clock_s() + seconds

    @property
    def is_spent(self) -> bool:
        """Whether nothing new may be begun."""
        return self._end_s is not None and self._clock_s() >= self._end_s
