"""What every sampler offers to the round loop (spec 05 section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from aisimulate.core.errors import AISimulateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.spica.config import Candidate
    from aisimulate.spica.parallel_enum import ParallelConfig
    from aisimulate.spica.parallel_projection import ParallelProjection
    from aisimulate.spica.search_space import BranchSpace


class SamplerContractError(AISimulateError, RuntimeError):
    """A sampler or its factory did what no sampler may do.

    It ends the search; `candidates` are what was found until then, ranked as a result is.
    """

    candidates: Sequence[Candidate] = ()


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One deployment to try.

    `selection` holds deployment_mode, then the pinned knobs, the float ranges and the searched knobs.
    `handle` is the sampler's own (a trial, a row); the loop only hands it back. `projection` is None when
    the sampler chose the parallel config itself instead of projecting latent features onto the pool.
    """

    selection: dict[str, Any]
    parallel_config: ParallelConfig
    handle: object = None
    projection: ParallelProjection | None = None


class BranchSampler(Protocol):
    """Proposes deployments of one branch and learns from their outcomes.

    The loop calls it from one thread, tells every suggestion exactly once and in the order suggested; a
    model-based sampler may therefore keep its observations in a plain list. A sampler whose attribute
    `overlaps` is true may also be asked before it was told the outcomes of everything it suggested.
    """

    branch: BranchSpace

    def suggest(self, count: int) -> list[Suggestion]:
        """Propose up to `count` (>= 1) deployments; an empty list means the space is exhausted.

        More than `count` are cut and never told. A value outside the branch fails that suggestion alone.
        """
        ...

    def observe(self, suggestion: Suggestion, metrics: Mapping[str, float]) -> None:
        """Learn a measured result: `objective` (signed, larger is better) or the raw objective vector."""
        ...

    def observe_infeasible(self, suggestion: Suggestion, reason: str) -> None:
        """Learn that a suggestion has no result, and why."""
        ...
