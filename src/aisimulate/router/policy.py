"""Placement by a class of the user's, which sees what the KV-aware router sees (docs/router.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from aisimulate.core.errors import ReplayError
from aisimulate.core.shown import show
from aisimulate.core.units import to_ms
from aisimulate.router.kv_router import KvRouter

if TYPE_CHECKING:
    from collections.abc import Sequence as ListOf

    from aisimulate.engine.sequence import Sequence
    from aisimulate.router.cost import Prompt


class PlacementRequest(NamedTuple):
    """A request to place, at `now_ms` on the clock of the replay."""

    number: int
    now_ms: float
    input_tokens: int
    output_tokens: int
    session_id: str | None
    metadata: Any


class TargetState(NamedTuple):
    """A rank of a worker.

    `cached_blocks`: leading blocks of the prompt that its engine told of having cached; `shared_blocks`:
    those that requests on it hold; `active_blocks`, `prefill_tokens`, `requests`: the load from placements.
    """

    worker: int
    rank: int
    cached_blocks: int
    shared_blocks: int
    active_blocks: float
    prefill_tokens: int
    requests: int


class PlacementPolicy(Protocol):
    """What a class of the user's has to have. It must be deterministic and draw from seeds of its own."""

    def choose(self, request: PlacementRequest, targets: ListOf[TargetState]) -> int:
        """Give the index of the target that the request goes to."""
        ...


class PolicyRouter(KvRouter):
    """A `KvRouter` that leaves the choice to a `PlacementPolicy`."""

    policy: PlacementPolicy

    def _decide(self, sequence: Sequence, prompt: Prompt, targets: list[int], now_ns: int) -> int:
        loads = self._loads
        states = [
            TargetState(
                *self._places[target],
                prompt.cached[target],
                prompt.shared[target],
                loads.active_blocks[target],
                loads.prefill_tokens[target],
                loads.requests[target],
            )
            for target in targets
        ]
        request = PlacementRequest(
            sequence.ordinal,
            to_ms(now_ns),
            sequence.input_tokens,
            sequence.output_tokens,
            sequence.session.session_id,
            sequence.turn.metadata,
        )
        try:
            index = self.policy.choose(request, states)
        except Exception as error:  # whatever a class of the user's raises
            name = type(self.policy).__name__
            raise ReplayError(f"placement policy {name}: raised {type(error).__name__}") from error
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(targets):
            kind = type(self.policy).__name__
            raise ReplayError(
                f"placement policy {kind}: {show(index)} is not the index of one of {len(targets)} targets"
            )
        return index
