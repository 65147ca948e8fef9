"""What the event loop, and those who watch it, need of a serving worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.sequence import Sequence


class Worker(Protocol):
    """One rank, or a group of ranks; `run_worker.RunWorker` tells the meaning."""

    busy: bool
    exact: bool
    end_ns: int

    @property
    def has_work(self) -> bool: ...  # noqa: D102
    @property
    def passes(self) -> int: ...  # noqa: D102
    @property
    def plans(self) -> int: ...  # noqa: D102
    def submit(self, sequence: Sequence) -> None: ...  # noqa: D102
    def advance(self, now_ns: int, until_ns: int) -> int: ...  # noqa: D102
    def start(self, now_ns: int) -> bool: ...  # noqa: D102
    def settle(self) -> None: ...  # noqa: D102
    def cut(self, at_ns: int) -> None: ...  # noqa: D102
    def finish(self) -> list[Sequence]: ...  # noqa: D102
    def last_boundary_ns(self, limit_ns: int) -> int: ...  # noqa: D102
    def pack_log(self) -> None: ...  # noqa: D102
    def close(self) -> GapLog: ...  # noqa: D102
