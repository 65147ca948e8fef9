"""Workers that look for new requests before every n-th pass only, while they are busy (docs/front-end.md)."""

from __future__ import annotations

from typing import Any

from .ahead import AheadWorker
from .fleet import SglangWorker, Worker
from .request import Request


class PollingWorker(Worker):
    """A worker with an inbox."""

    receive_interval = 1

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.inbox: list[tuple[int, Request]] = []
        self.count = 0  # passes since it was idle

    def place(self, request: Request) -> int:
        """Put a request into the inbox, for the next rank in rotation."""
        rank = super().place(request)
        self.inbox.append((rank, self.ranks[rank].waiting.pop()))
        return rank

    def start(self, now_ns: int) -> bool:
        """Look into the inbox if it is time, then start a pass."""
        if self.end_ns is None:
            if not any(rank.ready for rank in self.ranks):
                self.count = 0
            if self.count % self.receive_interval == 0:
                for rank, request in self.inbox:
                    self.ranks[rank].waiting.append(request)
                self.inbox = []
        return super().start(now_ns)

    def finish(self) -> list[Request]:
        """End the pass, which counts."""
        self.count += 1
        return super().finish()


class PollingSglangWorker(PollingWorker, SglangWorker):
    """The same with SGLang's rules."""


class PollingAheadWorker(AheadWorker):
    """The same with a look before every n-th plan."""

    receive_interval = 1

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.inbox: list[tuple[int, Request]] = []
        self.count = 0  # plans since it was idle
        self.may_look = True  # not between two plans that are made at once

    def place(self, request: Request) -> int:
        """Put a request into the inbox, for the next rank in rotation."""
        rank = super().place(request)
        self.inbox.append((rank, self.ranks[rank].waiting.pop()))
        return rank

    def start(self, now_ns: int) -> bool:
        """Begin the planned pass and plan the next; an idle worker counts anew."""
        self.may_look = True
        if self.end_ns is None and not self.planned and not any(rank.ready for rank in self.ranks):
            self.count = 0
        return super().start(now_ns)

    def _plan_something(self, now_ns: int) -> list[tuple[Any, Any]]:
        if self.count % self.receive_interval == 0 and self.may_look:
            for rank, request in self.inbox:
                self.ranks[rank].waiting.append(request)
            self.inbox = []
        self.may_look = False
        if not any(rank.ready for rank in self.ranks) and not self.planned and self.end_ns is None:
            return []
        self.count += 1
        return super()._plan_something(now_ns)
