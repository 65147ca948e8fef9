"""What the benchmark asks of a problem: a branch of the search space, and a truth to find in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.spica.parallel_enum import ParallelConfig
    from aisimulate.spica.search_space import BranchSpace

LOAD_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Measured:
    """The outcome of a configuration: what is observed, and what is true without the noise."""

    observed: tuple[float, ...]
    true: tuple[float, ...]


class Problem(Protocol):
    """One search problem. All values are positive, and better when larger."""

    name: str
    branch: BranchSpace
    objectives: Sequence[tuple[str, bool]] | None

    def measure(self, selection: Mapping[str, Any], config: ParallelConfig) -> Measured | None:
        """Return the outcome of a configuration; None when it is infeasible."""
        ...

    def screen(self, selection: Mapping[str, Any], config: ParallelConfig) -> list[float] | None:
        """Estimate the objectives without measuring."""
        ...

    def score(self, found: Sequence[Measured]) -> float:
        """Judge a search by what it measured; the best possible score is `exhaustive`'s."""
        ...

    def exhaustive(self) -> float:
        """Return the best possible score, by trying everything (seconds to minutes)."""
        ...


def load_step(selection: Mapping[str, Any]) -> int:
    """Return the load ratio of a selection in thousandths."""
    return round(LOAD_STEPS * selection["kv_load_ratio"])
