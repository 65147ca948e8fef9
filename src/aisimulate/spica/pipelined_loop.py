"""The loop of one branch without rounds to wait for: suggestions are asked for while others are replayed.

It stays deterministic. Outcomes are told in the order of the suggestions, and how many were told when the
next ones are asked for does not depend on which replay was faster.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from aisimulate.spica.evaluate import Prepared
from aisimulate.spica.loop import BranchSearch, Stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.spica.loop import OnRound, Step
    from aisimulate.spica.outcome import Outcome

# Suggestions are asked for when there is room for this share of a round: a model is not fitted for each.
_ASKED_SHARE = 4


class PipelinedSearch(BranchSearch):
    """Keeps up to a round of suggestions under way. A round ends with every `per_round` new measurements."""

    def run(self, on_round: OnRound | None) -> None:
        """Go on until a budget is spent, the space is exhausted or the sampler stalls."""
        self._window: deque[Step] = deque()
        self._tasks: list[Prepared] = []
        self._submitted: set[str] = set()
        stop, attempts = self._flow(self._pool.run(self._tasks), on_round)
        self._commit()
        if attempts:
            self._end_round(on_round)
        if stop is Stop.BUDGET:
            self.report.stop = stop
        else:
            self._stop_early(stop, attempts)

    def _flow(self, results: Iterator[Outcome], on_round: OnRound | None) -> tuple[Stop, int]:
        """Settle suggestion after suggestion; return why it ended, and the attempts of the last round."""
        unique = attempts = new = 0
        while True:
            ending = self._fill(unique)
            if not self._window:
                return ending, attempts
            known = len(self._keys)
            is_new = self._finish(self._window.popleft(), results)
            if is_new is None:
                return Stop.TIME, attempts
            unique, new, attempts = unique + is_new, new + is_new, attempts + 1
            if not self._window and len(self._keys) == known and self._all_seen():
                return Stop.EXHAUSTED, attempts
            if new == self._budget.per_round:
                self._commit()
                self._end_round(on_round)
                new = attempts = 0
            elif attempts >= self._budget.max_attempts and not self._budget.is_exhaustive:
                return Stop.STALLED, attempts

    def _fill(self, unique: int) -> Stop:
        """Ask for suggestions while there is room for enough; tell why not when nothing is under way."""
        enough = math.ceil(self._budget.per_round / _ASKED_SHARE)
        while True:
            left = self._left(unique)
            room = min(left, self._budget.per_round - len(self._window))
            if room <= 0 or (self._window and room < min(enough, left)):
                return Stop.BUDGET
            if self._state.time_budget.is_spent:
                return Stop.TIME
            suggestions = self._ask(room)
            if not suggestions:
                return Stop.EXHAUSTED
            for suggestion in suggestions:
                self._submit(self._step(suggestion))
            self._observer.suggested(len(suggestions))
            self._commit()

    def _left(self, unique: int) -> int:
        """Tell how many more suggestions may be under way before a budget is spent."""
        under_way, trials = len(self._window), self._trials_left
        left = self._budget.total - unique - under_way
        return left if trials is None else min(left, trials - under_way)

    def _submit(self, step: Step) -> None:
        self._window.append(step)
        fresh = step.key not in self._state.cache and step.key not in self._submitted
        if isinstance(step.work, Prepared) and fresh:
            self._submitted.add(step.key)
            self._tasks.append(step.work)

    def _commit(self) -> None:
        if self._state.ledger is not None:
            self._state.ledger.commit()
