"""Requests that wait at the router until some worker is not busy (spec 03 section A6)."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from aisimulate.core.units import NS_PER_S

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence
    from aisimulate.router.options import QueuePolicy

Item = TypeVar("Item")


class RouterQueue(Generic[Item]):
    """First the highest strict priority, then the highest score; equal ones in the order they came."""

    __slots__ = ("_heap", "_order", "_policy")

    def __init__(self, policy: QueuePolicy) -> None:
        self._policy = policy
        self._heap: list[tuple[int, float, int, Item]] = []
        self._order = count()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._heap)

    def push(self, sequence: Sequence, now_ns: int, cached_tokens: int, item: Item) -> None:
        """Let a request wait, of whose prompt the best worker has `cached_tokens` tokens."""
        priority, strict = _priorities(sequence)
        if self._policy == "wspt":
            score = (1 + priority) / max(1, sequence.input_tokens - cached_tokens)
        elif self._policy == "fcfs":
            score = priority - now_ns / NS_PER_S
        else:
            score = priority + now_ns / NS_PER_S
        heappush(self._heap, (-strict, -score, next(self._order), item))

    def pop(self) -> Item:
        """Take out the next request."""
        return heappop(self._heap)[-1]


def _priorities(sequence: Sequence) -> tuple[int, int]:
    """Read the priority, not below 0, and the strict priority of a request."""
    metadata: Any = sequence.turn.metadata
    if not isinstance(metadata, dict):
        return 0, 0
    return max(0, metadata.get("priority") or 0), metadata.get("strict_priority") or 0
