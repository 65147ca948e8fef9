"""The disk (G3) as one rank with host memory sees it: write-through behind the host, promotion into it.

What the host has taken up is offered to the disk, and kept in the host until it is written. What a waiting
prompt finds on the disk is promoted into the host first, and loaded from there. A promotion goes on without
the request that asked for it. Rules: spec 01 section 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.disk_tier import Found

if TYPE_CHECKING:
    from collections.abc import Sequence as ListOf

    from aisimulate.engine.disk_tier import DiskTier
    from aisimulate.engine.host_tier import HostTier
    from aisimulate.engine.offload_state import PromptState

# Promotions that a request may ask for while its rank does nothing else: more than that are in vain.
_MOST_ROUNDS = 1024


class DiskSide:
    """A rank's access to a disk that it may share with others."""

    __slots__ = ("_asked", "_asked_ns", "_client", "_host", "_rounds", "_seen", "tier")

    def __init__(self, tier: DiskTier, host: HostTier) -> None:
        self.tier = tier
        self._host = host
        self._client = tier.join()
        self._asked: set[tuple[PromptState, int]] = set()  # promotions begun at the instant `_asked_ns`
        self._asked_ns = 0
        self._rounds: dict[PromptState, int] = {}  # of promotions since the rank last did anything
        self._seen = 0  # of `tier.changes`

    @property
    def busy(self) -> bool:
        """Whether anything of this rank is on its way to the disk or back."""
        return self.tier.is_busy(self._client)

    @property
    def next_ns(self) -> int:
        """When something happens next; the past if something ended elsewhere that this rank has not seen."""
        return 0 if self._seen != self.tier.changes else self.tier.next_ns(self._client)

    def store(self, keys: list[int], now_ns: int) -> None:
        """Offer blocks that have arrived in the host, where they are held; what is not taken is let go."""
        taken = self.tier.write(self._client, keys, now_ns)
        if len(taken) < len(keys):
            kept = dict.fromkeys(taken)
            self._host.release([key for key in keys if key not in kept])

    def end_jobs(self, now_ns: int) -> bool:
        """Let everything happen that ends by now; return whether anything has ended, here or elsewhere."""
        ended = self.tier.fetch_ended(self._client, now_ns)
        for job in ended:
            if job.is_read:
                self._host.promoted(job.keys)
            else:
                self._host.release(job.keys)
        has_changed = self._seen != self.tier.changes
        self._seen = self.tier.changes
        return bool(ended) or has_changed

    # Promotion ----------------------------------------------------------------------------------------

    def stage(self, state: PromptState, first: int, now_ns: int) -> bool:
        """Promote what a prompt lacks in the host from block `first` on; return whether to wait for a job.

        Only as much is promoted as the host has room for; what others promote or write is waited for.
        """
        if self._rounds.get(state, 0) >= _MOST_ROUNDS and not state.bypasses:
            state.bypasses = True
            self.tier.stats.bypassed += 1
        if state.bypasses:
            return False
        if now_ns > self._asked_ns:
            self._asked_ns = now_ns
            self._asked.clear()
        keys = state.keys
        wanted, has_to_wait = self._reserve(state, keys[first:] if first else keys)
        if not wanted:
            return has_to_wait
        self.tier.read(self._client, wanted, now_ns)
        self._asked.update((state, key) for key in wanted)
        self._rounds[state] = self._rounds.get(state, 0) + 1
        state.promoted.update(wanted)
        return True

    def has_more(self, keys: ListOf[int]) -> bool:
        """Whether the disk has any of some blocks that the host lacks. Does not count as use of them."""
        holds, tier = self._host.holds, self.tier
        return any(tier.is_resident(key) and not holds(key) for key in keys)

    def _reserve(self, state: PromptState, keys: ListOf[int]) -> tuple[list[int], bool]:
        """Make room in the host for what the disk has of some blocks, as far as both go on."""
        host, wanted, has_to_wait = self._host, [], False
        for key in keys:
            if host.holds(key):
                has_to_wait |= host.is_pending(key)
                continue
            found = self.tier.probe(key)
            if found is Found.PENDING:
                has_to_wait = True
                continue
            if found is Found.MISSING or not self._makes_sense(state, key, keys) or not host.reserve([key]):
                break
            wanted.append(key)
        return wanted, has_to_wait

    def _makes_sense(self, state: PromptState, key: int, keys: ListOf[int]) -> bool:
        """Whether to promote a block: not for the second time at one instant if the prefix has no room."""
        if (state, key) not in self._asked:
            return True
        prefix = []
        for other in keys:
            if not (self._host.holds(other) or self.tier.holds(other)):
                break
            prefix.append(other)
        return self._host.has_room_for(prefix)

    def progressed(self) -> None:
        """The rank did something: nobody's promotions were in vain so far."""
        self._rounds.clear()

    def forget(self, state: PromptState) -> None:
        """A request was admitted or preempted: it may restore from the disk again."""
        self._rounds.pop(state, None)
        state.bypasses = False
