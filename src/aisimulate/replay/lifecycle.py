"""The life of plays, event by event, and the digest by which two replays are compared (spec 02 section 8)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import orjson

from aisimulate.core.units import to_ms
from aisimulate.engine.sequence import COMPLETED
from aisimulate.workload.digest import blake3_hex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.workload.plays import NodeEvent, PlaysOutcome

Event = dict[str, Any]

_SCHEMA = "aisimulate.agentic.lifecycle.v1"
_DOMAIN = b"aisimulate-agentic-lifecycle-v1\0"


def lifecycle_events(outcome: PlaysOutcome) -> list[Event]:
    """List what happened to requests and plays, in the canonical order.

    Of the requests that end together, first all ends are told, by node, each first failure of a play
    followed by what it skips; then that they are quiescent, with the plays that thereby come to rest. In an
    aggregated pool a request is quiescent as soon as it ends.
    """
    teller = _Teller(outcome)
    for (at_ns, ended, _), group in groupby(outcome.events, _together):
        if ended:
            teller.tell_ends(at_ns, sorted(group, key=lambda event: event.node))
        else:
            teller.tell_dispatches(at_ns, group)
    return teller.events


def lifecycle_digest(events: list[Event]) -> str:
    """BLAKE3 over one JSON line per event; equal to the reference's where all instants are."""
    return blake3_hex(_DOMAIN + b"".join(orjson.dumps(event) + b"\n" for event in events))


def _together(event: NodeEvent) -> tuple[int, bool, int]:
    return event.at_ns, event.status is not None, event.round


class _Teller:
    """Writes the events of one replay."""

    def __init__(self, outcome: PlaysOutcome) -> None:
        self.events: list[Event] = []
        self._nodes = outcome.graph.nodes
        self._plays = outcome.graph.plays
        self._play_of = {node: number for number, play in enumerate(self._plays) for node in play.nodes}
        self._in_flight = [0] * len(self._plays)
        self._unfinished = [len(play.nodes) for play in self._plays]
        self._failed = [False] * len(self._plays)
        self._dispatched: set[int] = set()

    def tell_dispatches(self, at_ns: int, events: Iterable[NodeEvent]) -> None:
        for event in events:
            self._dispatched.add(event.node)
            self._in_flight[self._play_of[event.node]] += 1
            self._tell(at_ns, self._play_of[event.node], "dispatch", event.node)

    def tell_ends(self, at_ns: int, events: list[NodeEvent]) -> None:
        for event in events:
            play = self._play_of[event.node]
            self._tell(at_ns, play, "causal_terminal", event.node, event.status)
            self._unfinished[play] -= 1
            if event.status != COMPLETED and not self._failed[play]:
                self._failed[play] = True
                for node in self._plays[play].nodes:
                    if node not in self._dispatched:
                        self._tell(at_ns, play, "skipped", node)
        for event in events:
            play = self._play_of[event.node]
            self._tell(at_ns, play, "quiescent", event.node)
            self._in_flight[play] -= 1
            if self._in_flight[play] == 0 and (self._failed[play] or self._unfinished[play] == 0):
                self._tell(at_ns, play, "play_quiescent")

    def _tell(
        self, at_ns: int, play: int, kind: str, node: int | None = None, status: str | None = None
    ) -> None:
        event: Event = {
            "schema": _SCHEMA,
            "ordinal": len(self.events),
            "at_ms": to_ms(at_ns),
            "play_id": self._plays[play].play_id,
        }
        if node is not None:
            event["request_id"] = self._nodes[node].request_id
        event["event"] = kind
        if status is not None:
            event["status"] = status
        self.events.append(event)
