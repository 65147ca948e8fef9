"""The tasks of one call of a pool, whatever the pool runs them on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from aisimulate.spica.evaluate import Prepared
from aisimulate.spica.outcome import Outcome, Reason, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Told of every evaluation that ended, as soon as it did: the task, its outcome, the wall time in s.
OnEnd: TypeAlias = Callable[[Prepared, Outcome, float], None]


class Batch:
    """The tasks of one run by number: those that wait for a worker, and the outcomes not yet asked for.

    Whoever listens to outcomes is told by `tell`, which a pool calls when its workers are busy again: to
    write an outcome down for good takes a while.
    """

    def __init__(self, tasks: Sequence[Prepared], on_end: OnEnd | None) -> None:
        self.tasks = tasks
        self._on_end = on_end
        self.waiting: deque[int] = deque()
        self._taken = 0
        self.outcomes: dict[int, Outcome] = {}
        self._lost_once: set[int] = set()
        self._untold: list[tuple[int, float]] = []

    def take_new(self, *, in_order: bool = True) -> None:
        """Queue the tasks that were added since the last time.

        Unless `in_order`, those with most requests in flight first: begun last, they would be waited for.
        """
        fresh: Iterable[int] = range(self._taken, len(self.tasks))
        if not in_order:
            fresh = sorted(fresh, key=lambda number: -(self.tasks[number].concurrency or 0))
        self.waiting.extend(fresh)
        self._taken = len(self.tasks)

    def lose(self, number: int, status: Status, category: Reason, reason: str) -> None:
        """Queue a task again, once, whose worker died or ran out of time: that may be bad luck."""
        if number not in self._lost_once:
            self._lost_once.add(number)
            self.waiting.append(number)
            return
        self._end(number, status, category, f"{reason} (tried twice)")

    def fail_waiting(self, reason: str) -> None:
        """Let every task fail that no worker has taken. Nobody is told: a later search should try them."""
        while self.waiting:
            number = self.waiting.popleft()
            config = self.tasks[number].config
            self.outcomes[number] = Outcome(
                Status.FAILED, config, category=Reason.REPLAY_RUNTIME, reason=reason
            )

    def _end(self, number: int, status: Status, category: Reason, reason: str) -> None:
        config = self.tasks[number].config
        self.end(number, Outcome(status, config, category=category, reason=reason), 0.0)

    def end(self, number: int, outcome: Outcome, wall_s: float) -> None:
        """Take the outcome of a task."""
        self.outcomes[number] = outcome
        self._untold.append((number, wall_s))

    def tell(self) -> None:
        """Tell of the outcomes since the last time."""
        untold, self._untold = self._untold, []
        if self._on_end is not None:
            for number, wall_s in untold:
                self._on_end(self.tasks[number], self.outcomes[number], wall_s)
