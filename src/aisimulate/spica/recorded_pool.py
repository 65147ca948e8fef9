"""A pool that looks candidates up before it replays them, and writes down what it replays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aisimulate.spica.evaluate import Prepared
    from aisimulate.spica.executor import EvaluationPool
    from aisimulate.spica.ledger import Ledger
    from aisimulate.spica.outcome import Outcome


class RecordedPool:
    """Wraps a pool: candidates that the ledger holds are not replayed again.

    The inner pool itself adds to the ledger whenever a replay ends, in whatever order (`OnEnd`).
    """

    def __init__(self, pool: EvaluationPool, ledger: Ledger) -> None:
        self._pool = pool
        self._known = ledger.replayed()

    def run(self, tasks: Sequence[Prepared]) -> Iterator[Outcome]:
        """Yield one outcome per task, in task order, until the inner pool yields no more."""
        unknown: list[Prepared] = []
        looked_at = 0
        fresh = self._pool.run(unknown)
        for task in tasks:  # which may grow
            unknown += [later for later in tasks[looked_at:] if later.key not in self._known]
            looked_at = len(tasks)
            outcome = self._known.get(task.key) or next(fresh, None)
            if outcome is None:
                return
            yield outcome

    def __enter__(self) -> Self:
        self._pool.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._pool.__exit__(*exc_info)
