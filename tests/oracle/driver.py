"""Hands requests to the fleet when they are due: open or closed loop, turn by turn (spec 02 section 4)."""

from __future__ import annotations

import heapq

from aisimulate.core.units import clock_ns

from .content import Token
from .request import Request
from .traffic import Traffic


class Driver:
    """Keeps the ready turns; at most one turn of a session is in flight."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.ready: list[tuple[int, int, int]] = []  # (due instant, session, turn)
        self.session_of: dict[Request, int] = {}
        self.history: dict[int, list[Token]] = {}
        self.next_session = 0
        if traffic.cap is None:
            for index, session in enumerate(traffic.sessions):
                heapq.heappush(self.ready, (clock_ns(float(session.arrival_ms)), index, 0))
        else:
            for _ in range(traffic.cap):
                self._activate_next(0)

    def due_ns(self) -> int | None:
        """The earliest instant at which a request is due, None when none is known."""
        return self.ready[0][0] if self.ready else None

    def take(self, now_ns: int) -> list[Request]:
        """All requests due by `now_ns`, in (due instant, session, turn) order."""
        requests = []
        while self.ready and self.ready[0][0] <= now_ns:
            requests.append(self._request(*heapq.heappop(self.ready)))
        return requests

    def ended(self, request: Request, now_ns: int) -> None:
        """A request became terminal: its session goes on to its next turn, or makes room for another."""
        index = self.session_of[request]
        turns = self.traffic.sessions[index].turns
        following = (request.turn_index or 0) + 1
        if following < len(turns) and request.status != "failed":
            if self.traffic.accumulate:
                # The prompt stays in the history whatever became of it; the outputs only of a completed turn.
                kept = request.length if request.status == "completed" else request.isl
                self.history[index] = request.tokens[:kept]
            heapq.heappush(
                self.ready, (now_ns + clock_ns(float(turns[following].delay_ms)), index, following)
            )
        elif self.traffic.cap is not None:
            self._activate_next(now_ns)

    def _activate_next(self, now_ns: int) -> None:
        if self.next_session < len(self.traffic.sessions):
            heapq.heappush(self.ready, (now_ns, self.next_session, 0))
            self.next_session += 1

    def _request(self, due_ns: int, index: int, turn_index: int) -> Request:
        session = self.traffic.sessions[index]
        turn = session.turns[turn_index]
        output = turn.output
        if output is None:
            output = [("output", index, turn_index, k) for k in range(turn.output_length)]
        tokens = self.history.get(index, []) + turn.tokens
        request = Request(session.session_id, turn_index, due_ns, tokens, output)
        self.session_of[request] = index
        return request
