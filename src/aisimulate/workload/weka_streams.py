"""From one Weka trace to streams of requests, and what each request waits for (spec 02 section 2.5)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.workload.graph import (
    COMPLETION,
    DISPATCH,
    JOIN,
    REPLAY_BARRIER,
    SEQUENCE,
    SPAWN,
    Dependency,
)
from aisimulate.workload.limits import shown
from aisimulate.workload.weka_chains import find_chains
from aisimulate.workload.weka_records import EPSILON_S, WekaPlay, WekaRequest, WekaSubagent

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True, eq=False)
class Stream:
    """Requests that follow one another, under the session `name`; those of one `scope` know of one another.

    `fork` is the request of another stream that this one left.
    """

    name: str
    scope: str
    requests: list[WekaRequest]
    fork: WekaRequest | None


@dataclass(slots=True)
class Lowered:
    """The streams of a play, the main one first, and the dependencies of each request by its source."""

    streams: list[Stream]
    waits: dict[str, list[Dependency]] = field(default_factory=dict)

    def add(
        self, target: WekaRequest, source: WekaRequest, trigger: str, relation: str, delay_s: float
    ) -> None:
        """Let `target` wait for `source`; a relation counts once per source and trigger."""
        edges = self.waits.setdefault(target.source, [])
        edge = Dependency(source.source, trigger, whole_ns_ms(delay_s), relation)
        if all((e.request_id, e.trigger, e.relation) != (source.source, trigger, relation) for e in edges):
            edges.append(edge)

    @property
    def requests(self) -> Iterable[WekaRequest]:
        """All requests of all streams."""
        return (request for stream in self.streams for request in stream.requests)


def whole_ns_ms(seconds: float) -> float:
    """Convert s to ms, rounded to whole ns; no time at all when it is negative."""
    return int(max(0.0, seconds) * 1e9 + 0.5) / 1e6


def lower_play(play: WekaPlay) -> Lowered:
    """Find the streams of a play and what its requests wait for.

    Within a stream requests follow one another. A stream that left another starts after the dispatch of the
    request it left, or after its end where it began later. A subagent leaves the latest request before it;
    the next request of a parent that waited joins its ends. What had ended in other streams of its scope
    before a request began has ended before it in a replay too. A stream that nothing precedes starts after
    the dispatch of the first request.
    """
    lowered = Lowered(_streams("root", play.requests))
    parents = list(lowered.streams)
    joins: list[tuple[WekaRequest, list[WekaRequest]]] = []
    for agent in play.subagents:
        owner = _owner(parents, agent)
        if not agent.requests:
            continue
        children = _child_streams(agent, owner[1])
        lowered.streams += children
        target = _join_target(owner[0], agent)
        if target is not None:
            joins.append((target, [child.requests[-1] for child in children]))
    _add_sequences(lowered)
    _add_spawns(lowered)
    _add_barriers(lowered)
    for target, ends in joins:
        for end in ends:
            lowered.add(target, end, COMPLETION, JOIN, target.start_s - end.end_s)
    _add_anchors(lowered)
    return lowered


def _streams(prefix: str, requests: list[WekaRequest]) -> list[Stream]:
    names = (prefix if number == 0 else f"{prefix}:worker:{number - 1}" for number in range(len(requests)))
    return [
        Stream(f"session:{name}", f"scope:{prefix}", chain.requests, chain.fork)
        for name, chain in zip(names, find_chains(requests), strict=False)
    ]


def _owner(parents: list[Stream], agent: WekaSubagent) -> tuple[Stream, WekaRequest]:
    """The stream and its request that started a subagent: the latest one before it in the trace."""
    before = [
        (request.order, stream, request)
        for stream in parents
        for request in stream.requests
        if request.order < agent.order
    ]
    if not before:
        raise InputError(f"{agent.place}: subagent {shown(agent.name)}: no request precedes it")
    _, stream, request = max(before, key=lambda item: item[0])
    return stream, request


def _child_streams(agent: WekaSubagent, spawner: WekaRequest) -> list[Stream]:
    children = _streams(f"subagent:{agent.order}:{agent.name}", agent.requests)
    children[0].fork = spawner
    for child in children:
        child.scope = children[0].name
    return children


def _join_target(owner: Stream, agent: WekaSubagent) -> WekaRequest | None:
    """The request of the parent that waited for a subagent: the next one that began after its end."""
    if not agent.blocking:
        return None
    end_s = max(request.end_s for request in agent.requests)
    if agent.duration_ms is not None:
        end_s = agent.start_s + agent.duration_ms / 1000.0
    after = [
        request
        for request in owner.requests
        if request.order > agent.order and request.start_s + EPSILON_S >= end_s
    ]
    return min(after, key=lambda request: request.order, default=None)


def _add_sequences(lowered: Lowered) -> None:
    for stream in lowered.streams:
        for previous, following in pairwise(stream.requests):
            lowered.add(following, previous, COMPLETION, SEQUENCE, following.start_s - previous.end_s)


def _add_spawns(lowered: Lowered) -> None:
    for stream in lowered.streams:
        first, parent = stream.requests[0], stream.fork
        if parent is None:
            continue
        if first.start_s < parent.end_s:
            lowered.add(first, parent, DISPATCH, SPAWN, first.start_s - parent.start_s)
        else:
            lowered.add(first, parent, COMPLETION, SPAWN, first.start_s - parent.end_s)


def _add_anchors(lowered: Lowered) -> None:
    root = lowered.streams[0].requests[0]
    for stream in lowered.streams:
        first = stream.requests[0]
        if first is not root and not lowered.waits.get(first.source):
            lowered.add(first, root, DISPATCH, SPAWN, first.start_s - root.start_s)


# Barriers between streams of one scope ------------------------------------------------------------------


@dataclass(slots=True)
class _Ended:
    """The requests of a stream in the order in which they ended."""

    stream: Stream
    requests: list[WekaRequest] = field(init=False)
    ends_s: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.requests = sorted(self.stream.requests, key=lambda request: _end_rank(request))
        self.ends_s = [request.end_s for request in self.requests]

    def latest_before(self, target: WekaRequest) -> WekaRequest | None:
        """The request that began before `target` and ended last, but not after the beginning of `target`."""
        index = bisect_right(self.ends_s, target.start_s + EPSILON_S) - 1
        while index >= 0 and self.requests[index].start_s >= target.start_s:
            index -= 1
        return self.requests[index] if index >= 0 else None


def _end_rank(request: WekaRequest) -> tuple[float, float, str]:
    return request.end_s, request.start_s, request.source


def _add_barriers(lowered: Lowered) -> None:
    scopes: dict[str, list[_Ended]] = {}
    for stream in lowered.streams:
        scopes.setdefault(stream.scope, []).append(_Ended(stream))
    for ended in scopes.values():
        for own in ended:
            others = [other for other in ended if other is not own]
            for target in own.stream.requests:
                latest = [request for other in others if (request := other.latest_before(target))]
                for source in latest:
                    if not any(_precedes(source, later) for later in latest):
                        lowered.add(target, source, COMPLETION, REPLAY_BARRIER, 0.0)


def _precedes(request: WekaRequest, later: WekaRequest) -> bool:
    return request.start_s < later.start_s and request.end_s <= later.start_s + EPSILON_S
