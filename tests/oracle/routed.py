"""A fleet whose requests are placed by a rule that looks at what engines have told so far (spec 03 part A).

An engine tells of the blocks it has cached whenever a pass ends: of all it did by then, be it for passes that
are only planned.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .fleet import Fleet, Outcome, Worker
from .radix import RadixTree
from .request import Request


class Target(NamedTuple):
    """What is known of a rank when a request is placed."""

    worker: int
    rank: int
    cached_blocks: int
    prefill_tokens: int
    requests: int


def choice(number: int, targets: list[Target]) -> int:
    """Give the index of the target for request `number`: mostly the best one, now and then another."""
    if number % 3 == 2:
        return number // 3 % len(targets)
    costs = [(-3 * t.cached_blocks + t.prefill_tokens + 2 * t.requests, i) for i, t in enumerate(targets)]
    return min(costs)[1]


class _Known:
    """What a rank has told, and what was placed on it."""

    def __init__(self) -> None:
        self.cached: set[int] = set()
        self.prefills: dict[Request, int] = {}  # tokens to compute
        self.requests: set[Request] = set()


class RoutedFleet(Fleet):
    """A `Fleet` that places by `choice`; `log` has what it saw each time."""

    def __init__(self, payload: dict[str, Any]) -> None:
        super().__init__(payload)
        self.known = [[_Known() for _ in worker.ranks] for worker in self.workers]
        self.log: list[list[Target]] = []

    def _place(self, request: Request) -> None:
        request.number = len(self.requests)
        targets = [
            Target(
                index,
                number,
                self._found(self.workers[index].ranks[number], known, request),
                sum(known.prefills.values()),
                len(known.requests),
            )
            for index, ranks in enumerate(self.known)
            for number, known in enumerate(ranks)
        ]
        self.log.append(targets)
        target = targets[choice(request.number, targets)]
        known, worker = self.known[target.worker][target.rank], self.workers[target.worker]
        size = worker.ranks[0].page if hasattr(worker.ranks[0], "page") else worker.ranks[0].block_size
        known.prefills[request] = request.isl - target.cached_blocks * size
        known.requests.add(request)
        worker.ranks[target.rank].waiting.append(request)
        request.scheduler = target.worker * len(worker.ranks) + target.rank
        self.requests.append(request)

    def _found(self, rank: Any, known: _Known, request: Request) -> int:
        size = rank.page if hasattr(rank, "page") else rank.block_size
        prompt = rank.identities.of(request.tokens, size)
        missing = [index for index, identity in enumerate(prompt) if identity not in known.cached]
        return min(missing, default=len(prompt))

    def _finish(self, worker: Worker) -> None:
        index = self.workers.index(worker)
        super()._finish(worker)
        for rank, known in zip(worker.ranks, self.known[index], strict=True):
            known.cached = _cached(rank)
            known.requests = {request for request in known.requests if not request.status}
            known.prefills = {
                request: tokens
                for request, tokens in known.prefills.items()
                if not request.status and not (request.token_ns and request.token_ns[0] <= self.now_ns)
            }


def _cached(rank: Any) -> set[int]:
    """All contents that a lookup finds now."""
    held = rank.tree if hasattr(rank, "tree") else rank.pool
    if isinstance(held, RadixTree):
        return {key for node in held.nodes() for key in node.keys}
    return set(held.copies)


def replay_routed(payload: dict[str, Any]) -> tuple[Outcome, list[list[Target]]]:
    """Run a payload; return what happened, and what was seen at each placement."""
    fleet = RoutedFleet(payload)
    return fleet.run(), fleet.log
