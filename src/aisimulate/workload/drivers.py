"""Which driver feeds a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from aisimulate.workload.driver import SessionDriver
from aisimulate.workload.graph import AgenticWorkload
from aisimulate.workload.graph_driver import GraphDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.core.traffic import Workload
    from aisimulate.engine.sequence import Sequence
    from aisimulate.workload.plays import PlaysOutcome


class Driver(Protocol):
    """What the event loop needs of the traffic."""

    @property
    def sequences(self) -> list[Sequence]: ...  # noqa: D102
    @property
    def is_independent(self) -> bool: ...  # noqa: D102
    def next_ready_ns(self) -> int | None: ...  # noqa: D102
    def pop_ready(self, now_ns: int) -> list[Sequence]: ...  # noqa: D102
    def pop_first(self, count: int) -> list[Sequence]: ...  # noqa: D102
    def on_terminal(self, sequence: Sequence, now_ns: int) -> None: ...  # noqa: D102


class PassedOn:
    """What drivers that pass the traffic of another one on have in common: all that nobody has to hear of."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.next_ready_ns = driver.next_ready_ns
        self.pop_first = driver.pop_first

    @property
    def sequences(self) -> list[Sequence]:
        """Everything dispatched so far."""
        return self._driver.sequences

    @property
    def is_independent(self) -> bool:
        """Whether requests do not depend on each other."""
        return self._driver.is_independent


# From a workload and the tokens of a KV block to what feeds it to a replay.
DriverMaker: TypeAlias = "Callable[[Workload, int], Driver]"


def make_driver(workload: Workload, block_tokens: int) -> Driver:
    """Prepare the first arrivals; `block_tokens` is the engine's KV block size.

    Raises InputError for traffic that cannot be started.
    """
    if isinstance(workload, AgenticWorkload):
        return GraphDriver(workload, block_tokens)
    return SessionDriver(workload, block_tokens)


def plays_of(driver: Driver) -> PlaysOutcome | None:
    """What became of the plays of an agentic trace, None for other traffic."""
    return driver.plays if isinstance(driver, GraphDriver) else None


def is_closed_loop(driver: Driver) -> bool:
    """Whether traffic started with a burst, after which requests take the place of those that ended."""
    return isinstance(driver, SessionDriver) and driver.is_closed_loop
