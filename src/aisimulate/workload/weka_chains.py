"""Telling the conversations of a Weka trace apart: each prompt of one extends the one before (spec 02 2.5).

The trace does not name conversations. A request continues the chain whose latest prompt its own begins
with; one that continues none forks off the chain it shares most with. A fork that starts after the chain it
left had ended is that chain, going on with an edited history: the two are joined at this seam.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aisimulate.workload.weka_records import EPSILON_S, WekaRequest

if TYPE_CHECKING:
    from array import array

# A fork this much later that shares less than this part of the prompt is another conversation.
_SEAM_GAP_S = 3600.0
_SEAM_SHARE = 0.5
# A first request with a longer answer is only a preamble when it shares no block at all.
_PREAMBLE_TOKENS = 64


@dataclass(slots=True, eq=False)
class Chain:
    """The requests of one conversation.

    `tail` is its latest request that has content. `fork` is the request of another chain that it left, after
    `depth` common blocks.
    """

    requests: list[WekaRequest] = field(default_factory=list)
    tail: WekaRequest | None = None
    fork: WekaRequest | None = None
    depth: int = 0

    def append(self, request: WekaRequest) -> None:
        """Let the chain go on with a request."""
        self.requests.append(request)
        if request.hashes:
            self.tail = request


def find_chains(requests: list[WekaRequest]) -> list[Chain]:
    """Tell the chains of one or more requests apart: the main one, which begins first, then by beginning."""
    requests = sorted(requests, key=lambda request: request.rank)
    preamble = _take_preamble(requests)
    chains = _grow_chains(requests)
    _Seams(chains).join()
    live = sorted((chain for chain in chains if chain.requests), key=lambda chain: chain.requests[0].rank)
    live[0].requests = sorted(live[0].requests + preamble, key=lambda request: request.rank)
    return live


def common_blocks(first: array[int], second: array[int]) -> int:
    """Number of leading blocks that two prompts share."""
    for index, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            return index
    return min(len(first), len(second))


def _take_preamble(requests: list[WekaRequest]) -> list[WekaRequest]:
    """Take out a first request that no later one builds on: it would be a chain of its own."""
    if len(requests) < 2 or not requests[0].hashes:
        return []
    first, others = requests[0], requests[1:]
    if any(other.hashes[:1] == first.hashes[:1] for other in others):
        return []
    if first.output_tokens > _PREAMBLE_TOKENS:
        blocks = {block for other in others for block in other.hashes}
        if not blocks.isdisjoint(first.hashes):
            return []
    return [requests.pop(0)]


def _grow_chains(requests: list[WekaRequest]) -> list[Chain]:
    chains: list[Chain] = []
    for request in requests:
        chain = _chain_for(request, chains)
        if chain is None:
            chain = _fork(request, chains)
            chains.append(chain)
        chain.append(request)
    return chains


def _chain_for(request: WekaRequest, chains: list[Chain]) -> Chain | None:
    """Find the chain that a request continues; one without content goes to the first."""
    if not chains:
        chains.append(Chain())
    if not request.hashes or all(chain.tail is None for chain in chains):
        return chains[0]
    return _extended(request, chains)


def _extended(request: WekaRequest, chains: list[Chain]) -> Chain | None:
    """Find the chain with the longest latest prompt that the request's begins with."""
    best, most = None, 0
    for chain in chains:
        tail = chain.tail
        if tail is None or not most < len(tail.hashes) <= len(request.hashes):
            continue
        follows = tail.model == request.model and tail.end_s <= request.start_s + EPSILON_S
        if follows and request.hashes[: len(tail.hashes)] == tail.hashes:
            best, most = chain, len(tail.hashes)
    return best


def _fork(request: WekaRequest, chains: list[Chain]) -> Chain:
    """Begin a chain that leaves the one with which the request shares most blocks, of those the longest."""
    fork, best = None, (0, 0)
    for chain in chains:
        if chain.tail is not None:
            depth = common_blocks(chain.tail.hashes, request.hashes)
            if depth and (depth, len(chain.tail.hashes)) > best:
                fork, best = chain.tail, (depth, len(chain.tail.hashes))
    return Chain(fork=fork, depth=best[0])


class _Seams:
    """Joins forks to the chains they left, where those had come to an end."""

    def __init__(self, chains: list[Chain]) -> None:
        self._chains = chains
        self._owner = {request.source: chain for chain in chains for request in chain.requests}
        self._forks: dict[str, list[Chain]] = {}
        for chain in chains:
            if chain.fork is not None:
                self._forks.setdefault(chain.fork.source, []).append(chain)

    def join(self) -> None:
        """Join all; a joined chain has no requests left."""
        waiting = set(self._forks)
        while waiting:
            source = min(waiting)
            waiting.remove(source)
            owner = self._owner[source]
            tail = owner.tail
            if tail is not None and tail.source == source:
                waiting |= self._join_one(owner, tail)

    def _join_one(self, owner: Chain, tail: WekaRequest) -> set[str]:
        """Join the best fork of a tail; return the tails whose forks must be looked at again."""
        forks = [chain for chain in self._chains if chain.requests and chain in self._forks[tail.source]]
        eligible = [chain for chain in forks if _goes_on(chain, tail)]
        if not eligible:
            return set()
        # Of equal ones the earliest, then the first.
        elected = max(eligible, key=lambda chain: (chain.depth, -chain.requests[0].start_s))
        for request in elected.requests:
            self._owner[request.source] = owner
        owner.requests += elected.requests
        owner.tail, elected.requests = elected.tail, []
        return self._move_forks([chain for chain in forks if chain is not elected], owner.tail)

    def _move_forks(self, forks: list[Chain], tail: WekaRequest | None) -> set[str]:
        """Let the other forks leave from the new tail where that came before them and shares blocks."""
        moved: set[str] = set()
        for chain in forks:
            first = chain.requests[0]
            if tail is None or tail.start_s > first.start_s + EPSILON_S:
                continue
            depth = common_blocks(tail.hashes, first.hashes)
            if depth:
                chain.fork, chain.depth = tail, depth
                self._forks.setdefault(tail.source, []).append(chain)
                moved.add(tail.source)
        return moved


def _goes_on(chain: Chain, tail: WekaRequest) -> bool:
    first = chain.requests[0]
    if not chain.depth or first.model != tail.model or tail.end_s > first.start_s + EPSILON_S:
        return False
    late = first.start_s - tail.end_s > _SEAM_GAP_S
    return not (late and chain.depth / max(1, len(tail.hashes)) < _SEAM_SHARE)
