"""What a search reports while it runs, and who listens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from aisimulate.spica.outcome import Outcome
    from aisimulate.spica.summary import Progress


class Observer(Protocol):
    """Receives the events of one search, in the main process and in a fixed order."""

    def phase(self, name: str, progress: Progress) -> None:
        """Announce what the search does from now on (enumerating, or a branch being searched)."""
        ...

    def suggested(self, count: int) -> None:
        """Tell that `count` deployments were suggested and their evaluation starts."""
        ...

    def settled(self, outcome: Outcome, *, cached: bool, progress: Progress) -> None:
        """Tell that one suggestion has its outcome, from the cache or freshly measured."""
        ...

    def round_ended(self, number: int, progress: Progress) -> None:
        """Tell that round `number` (1, 2, ... over all branches) is over."""
        ...

    def note(self, text: str) -> None:
        """Pass on one line the user should see."""
        ...

    def done(self, lines: list[str]) -> None:
        """Pass on the closing summary lines; only `close` follows."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was; also called when the search raised."""
        ...


class SilentObserver:
    """Listens to nothing."""

    def phase(self, name: str, progress: Progress) -> None:
        """Ignore it."""

    def suggested(self, count: int) -> None:
        """Ignore it."""

    def settled(self, outcome: Outcome, *, cached: bool, progress: Progress) -> None:
        """Ignore it."""

    def round_ended(self, number: int, progress: Progress) -> None:
        """Ignore it."""

    def note(self, text: str) -> None:
        """Ignore it."""

    def done(self, lines: list[str]) -> None:
        """Ignore it."""

    def close(self) -> None:
        """Nothing to leave."""
