"""Ranks that share host memory or a disk: what one of them does may help another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.engine.offload_scheduler import Offloading
    from aisimulate.engine.offload_state import HostSide


class Sharers:
    """All ranks that share something, and when each of them could let nobody in."""

    __slots__ = ("_ranks", "_stuck_ns")

    def __init__(self) -> None:
        self._ranks: list[Offloading] = []
        self._stuck_ns: dict[HostSide, int] = {}

    def join(self, rank: Offloading) -> None:
        """Count a rank among them."""
        self._ranks.append(rank)

    def note_stuck(self, side: HostSide, now_ns: int) -> None:
        """Hear that a rank can let nobody in as things are."""
        self._stuck_ns[side] = now_ns

    def all_stuck(self, now_ns: int) -> bool:
        """Whether no rank runs anything, or copies, or may still let anybody in."""
        return not any(
            rank.is_running or rank.host.busy or (rank.has_work and self._stuck_ns.get(rank.host) != now_ns)
            for rank in self._ranks
        )
