"""The instant at which a router is asked, as those tell who know it."""

from __future__ import annotations


class RouterClock:
    """`now_ns` is the instant of the last event that concerned a router of the replay."""

    __slots__ = ("now_ns",)

    def __init__(self) -> None:
        self.now_ns = 0
