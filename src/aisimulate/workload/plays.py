"""What becomes of the plays of one replay: which requests went out, which ended how (spec 02 section 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aisimulate.workload.graph import AgenticGraph


class NodeEvent(NamedTuple):
    """A request was dispatched (`status` is None) or ended, at an instant in ns on the clock.

    Ends of one instant with the same `round` happened together, before anything else began.
    """

    at_ns: int
    node: int
    status: str | None
    round: int


@dataclass(slots=True)
class PlayRun:
    """One play under way. `failure` is the earliest end of a request that did not succeed.

    A play is settled at `settled_ns`: when all its requests completed, or when it failed and the last of
    those that were dispatched before has ended. Instants in ns on the clock.
    """

    unfinished: int
    in_flight: int = 0
    lane: int | None = None
    start_ns: int | None = None
    last_end_ns: int | None = None
    failure: NodeEvent | None = None
    settled_ns: int | None = None

    @property
    def is_completed(self) -> bool:
        """Whether all its requests completed."""
        return self.failure is None and self.unfinished == 0


@dataclass(slots=True)
class PlaysOutcome:
    """A graph as it was replayed; `runs` are in the order of its plays, `events` as they happened."""

    graph: AgenticGraph
    runs: list[PlayRun]
    events: list[NodeEvent]
