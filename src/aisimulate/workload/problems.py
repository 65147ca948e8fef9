"""What is wrong with the rows of a trace: the first wrong row ends the reading, unless all are asked for."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.core.errors import InputError

MAX_PROBLEMS = 100
"""Problems that are kept word for word; the others are only counted."""


@dataclass(slots=True)
class Problems:
    """The problems found so far, in the order of the rows."""

    found: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, problem: str) -> None:
        """Keep a problem, or only count it when there are too many."""
        self.count += 1
        if len(self.found) < MAX_PROBLEMS:
            self.found.append(problem)


_collected: ContextVar[Problems | None] = ContextVar("problems", default=None)


@contextmanager
def all_problems() -> Iterator[Problems]:
    """Let readers go on after a wrong row: what they find is in the value of this context."""
    problems = Problems()
    token = _collected.set(problems)
    try:
        yield problems
    finally:
        _collected.reset(token)


def wrong_row(error: InputError) -> None:
    """Raise what is wrong with a row; return when all problems are asked for: the row is left out then."""
    problems = _collected.get()
    if problems is None:
        raise error
    problems.add(str(error))
