"""Hands requests of a graph to the fleet, told afresh each time from what has happened (spec 02 4.4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aisimulate.core.units import clock_ns

from .content import Token, cut_blocks
from .request import Request

Row = dict[str, Any]


class GraphDriver:
    """Knows when every request was dispatched and how it ended; everything else follows from that."""

    def __init__(self, traffic: dict[str, Any]) -> None:
        header, *rows = [
            json.loads(text) for text in Path(traffic["trace_paths"][0]).read_text().splitlines()
        ]
        self.block = header["block_size"]
        self.ratio = traffic.get("arrival_speedup_ratio") or 1.0
        self.lanes = traffic.get("agentic_lanes")
        self.rows: dict[str, Row] = {row["request_id"]: row for row in sorted(rows, key=_by_id)}
        self.first_ms = min(row["not_before_ms"] for row in rows)
        self.plays = sorted({row["play_id"] for row in rows})
        self.dispatched: dict[str, int] = {}
        self.completed: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self.started: dict[str, int] = {}
        self.interned: dict[int, int] = {}
        for row in self.rows.values():
            for raw in row["hash_ids"]:
                self.interned.setdefault(raw, len(self.interned))

    def due_ns(self) -> int | None:
        """The earliest instant at which a request is due, None when none is known."""
        return min(self._due(), default=(None, ""))[0]

    def take(self, now_ns: int) -> list[Request]:
        """All requests due by `now_ns`, in (due instant, id) order; a dispatch may make another one due."""
        requests = []
        while due := [item for item in self._due() if item[0] <= now_ns]:
            instant, request_id = min(due)
            self.dispatched[request_id] = instant
            requests.append(self._request(instant, self.rows[request_id]))
        return requests

    def ended(self, request: Request, now_ns: int) -> None:
        """A request became terminal."""
        ends = self.completed if request.status == "completed" else self.failed
        ends[request.session_id] = now_ns

    def _due(self) -> list[tuple[int, str]]:
        self._start_plays()
        due = [(self._ready_ns(row), request_id) for request_id, row in self.rows.items()]
        return [(instant, request_id) for instant, request_id in due if instant is not None]

    def _ready_ns(self, row: Row) -> int | None:
        play = row["play_id"]
        if row["request_id"] in self.dispatched or play not in self.started or self._has_failed(play):
            return None
        instants = [self._start_ns(row)]
        for edge in row.get("dependencies", []):
            fired = self.dispatched if edge["trigger"] == "dispatch" else self.completed
            if edge["request_id"] not in fired:
                return None
            instants.append(fired[edge["request_id"]] + clock_ns(edge["delay_ms"] / self.ratio))
        return max(instants)

    def _start_ns(self, row: Row) -> int:
        """The authored start; with lanes it counts from the earliest root of the play."""
        own_ms = (row["not_before_ms"] - self.first_ms) / self.ratio
        if self.lanes is None:
            return clock_ns(own_ms)
        roots = [other for other in self._nodes(row["play_id"]) if not other.get("dependencies")]
        origin_ms = min((other["not_before_ms"] - self.first_ms) / self.ratio for other in roots)
        return self.started[row["play_id"]] + clock_ns(max(0.0, own_ms - origin_ms))

    def _start_plays(self) -> None:
        settled = sorted(instant for play in self.started if (instant := self._settled_ns(play)) is not None)
        room = len(self.plays) if self.lanes is None else self.lanes + len(settled)
        for number, play in enumerate(self.plays[:room]):
            late = self.lanes is not None and number >= self.lanes
            self.started.setdefault(play, settled[number - (self.lanes or 0)] if late else 0)

    def _settled_ns(self, play: str) -> int | None:
        """When all requests of a play had completed, or those that went out had ended and one had failed."""
        ids = [row["request_id"] for row in self._nodes(play)]
        ends = [(self.completed | self.failed).get(request_id) for request_id in ids]
        out = [end for end, request_id in zip(ends, ids, strict=True) if request_id in self.dispatched]
        if not out or None in out or (len(out) < len(ids) and not self._has_failed(play)):
            return None
        return max(end for end in out if end is not None)

    def _has_failed(self, play: str) -> bool:
        return any(row["request_id"] in self.failed for row in self._nodes(play))

    def _nodes(self, play: str) -> list[Row]:
        return [row for row in self.rows.values() if row["play_id"] == play]

    def _request(self, due_ns: int, row: Row) -> Request:
        ids: list[Token] = [self.interned[raw] for raw in row["hash_ids"]]
        output: list[Token] | None = row.get("output_token_ids")
        if output is None:
            output = [("output", row["request_id"], k) for k in range(row["output_length"])]
        tokens = cut_blocks(ids, self.block, row["input_length"])
        return Request(row["request_id"], None, due_ns, tokens, output)


def _by_id(row: Row) -> str:
    return str(row["request_id"])
