"""Workers that look for new requests before every n-th pass only, while they are busy (docs/front-end.md)."""

from __future__ import annotations

from typing import Any

from .ahead import AheadWorker
from .fleet import SglangWorker, Worker
from .request import Request


class _Inbox(Worker):
    """A worker with an inbox."""

    receive_interval = 1

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.inbox: list[tuple[int, Request]] = []
        self.count = 0  # looks that were possible since it was idle

    def place(self, request: Request) -> int:
        """Put a request into the inbox, for the next rank in rotation."""
        rank = super().place(request)
        self.inbox.append((rank, self.ranks[rank].waiting.pop()))
        return rank

    def _look(self) -> None:
        """Look into the inbox if it is time."""
        if self.count % self.receive_interval == 0:
            for rank, request in self.inbox:
                self.ranks[rank].waiting.append(request)
            self.inbox = []


class PollingWorker(_Inbox):
    """One that may look before each of its passes."""

    def start(self, now_ns: int) -> bool:
        """Look into the inbox if it is time, then start a pass."""
        if self.end_ns is None:
            if not any(rank.ready for rank in self.ranks):
                self.count = 0
            self._look()
        return super().start(now_ns)

    def finish(self) -> list[Request]:
        """End the pass, which counts."""
        self.count += 1
        return super().finish()


class PollingSglangWorker(PollingWorker, SglangWorker):
    """The same with SGLang's rules."""


class PollingAheadWorker(_Inbox, AheadWorker):
    """One that looks ahead, and may look before each of its plans."""

    may_look = True  # not between two plans that are made at once

    def start(self, now_ns: int) -> bool:
        """Begin the planned pass and plan the next; an idle worker counts anew."""
        self.may_look = True
        if self.end_ns is None and not self.planned and not any(rank.ready for rank in self.ranks):
            self.count = 0
        return super().start(now_ns)

    def _plan_something(self, now_ns: int) -> list[tuple[Any, Any]]:
        if self.may_look:
            self._look()
        self.may_look = False
        if not any(rank.ready for rank in self.ranks) and not self.planned and self.end_ns is None:
            return []
        self.count += 1
        return super()._plan_something(now_ns)
