"""A medium whose bandwidth is shared equally by all who use it at a time, in each direction by itself.

A transfer waits for its first byte without using any bandwidth. Then it moves at the lower of two shares: of
what its client may use, by the client's moving transfers, and of what the medium has, by all moving ones.
Shares change whenever a transfer begins to move or ends; what a transfer leaves of its share goes to nobody
else (spec 01 section 5). Time is exact in here; for others a transfer ends at the nearest whole ns.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Generic, TypeVar

What = TypeVar("What")

NEVER_NS = 1 << 62
# Exact numbers grow with every event of a long busy time: beyond this they are cut to a fine grid.
_MOST_BITS = 192
_GRID = 1 << 96


def exact_gbps(gbps: float) -> Fraction | None:
    """Read a bandwidth (decimal GB/s, so bytes per ns) as the number it was written as; 0 is no limit."""
    return Fraction(repr(gbps)) if gbps else None


class Transfer(Generic[What]):
    """Bytes on their way, for `what`; the client may use `gbps` in all. `end_ns` is set when it has ended."""

    __slots__ = ("client", "end_ns", "gbps", "is_read", "left", "ready", "what")

    def __init__(
        self, what: What, client: int, is_read: bool, size_bytes: int, gbps: Fraction | None
    ) -> None:
        self.what = what
        self.client = client
        self.is_read = is_read
        self.left: Fraction | int = size_bytes
        self.gbps = gbps
        self.ready: Fraction | int = 0
        self.end_ns = NEVER_NS


class FairService(Generic[What]):
    """The transfers of a medium, in the order of submission, and its own limits."""

    __slots__ = ("_gbps", "_moving", "_next", "_now", "_transfers", "next_ns")

    def __init__(self, read_gbps: Fraction | None = None, write_gbps: Fraction | None = None) -> None:
        self._gbps = {True: read_gbps, False: write_gbps}
        self._transfers: list[Transfer[What]] = []
        self._moving: list[tuple[Transfer[What], Fraction | None]] = []  # with their shares
        self._now: Fraction | int = 0
        self._next: Fraction | int = NEVER_NS  # when the next transfer begins to move or ends
        self.next_ns = NEVER_NS  # the same for others; far away without any

    def uses(self, client: int) -> bool:
        """Whether a client has a transfer here."""
        return any(transfer.client == client for transfer in self._transfers)

    def submit(self, transfer: Transfer[What], now_ns: int, latency_ns: int) -> None:
        """Begin a transfer. All that ends by `now_ns` must have been fetched with `advance`."""
        self._move_to(max(self._now, now_ns))
        transfer.ready = max(self._now, now_ns + latency_ns)
        self._transfers.append(transfer)
        self._look_ahead()

    def advance(self, now_ns: int) -> list[Transfer[What]]:
        """Let time pass up to `now_ns`; return the transfers that ended, in order."""
        ended: list[Transfer[What]] = []
        while self.next_ns <= now_ns:
            at = self._next
            done = dict.fromkeys(
                transfer
                for transfer, share in self._moving
                if share is None or transfer.left <= (at - self._now) * share
            )
            self._move_to(at)
            for transfer in done:
                transfer.end_ns = round(at)
            if done:
                self._transfers = [transfer for transfer in self._transfers if transfer not in done]
                ended += done
            self._look_ahead()
        return ended

    def _move_to(self, at: Fraction | int) -> None:
        elapsed = at - self._now
        if elapsed:
            for transfer, share in self._moving:
                if share is not None:
                    transfer.left = _trimmed(transfer.left - elapsed * share)
        self._now = _trimmed(at)

    def _look_ahead(self) -> None:
        """Share the bandwidth out among those that move now, and find out when that changes."""
        now = self._now
        moving = [transfer for transfer in self._transfers if transfer.ready <= now]
        users = Counter((transfer.is_read, transfer.client) for transfer in moving)
        total = Counter(transfer.is_read for transfer in moving)
        self._moving = [
            (
                transfer,
                _lower(
                    _share(transfer.gbps, users[transfer.is_read, transfer.client]),
                    _share(self._gbps[transfer.is_read], total[transfer.is_read]),
                ),
            )
            for transfer in moving
        ]
        changes = [transfer.ready for transfer in self._transfers if transfer.ready > now]
        changes += [now if share is None else now + transfer.left / share for transfer, share in self._moving]
        self._next = min(changes, default=NEVER_NS)
        self.next_ns = round(self._next)


def _share(gbps: Fraction | None, users: int) -> Fraction | None:
    return None if gbps is None else gbps / users


def _lower(first: Fraction | None, second: Fraction | None) -> Fraction | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


def _trimmed(number: Fraction | int) -> Fraction | int:
    if number.denominator.bit_length() <= _MOST_BITS:
        return number
    return Fraction(round(number * _GRID), _GRID)
