"""A disk behind the host memory of one rank or of many, one object per block and job (spec 01 section 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any


@dataclass(eq=False)
class DiskBlock:
    """A place on the disk; of blocks that nothing reads, the one with the lowest stamp goes first."""

    writer: int
    resident: bool = False
    readers: int = 0
    stamp: tuple[int, int] = (0, 0)


@dataclass(eq=False)
class Job:
    """Blocks on their way to the disk or from it, for the rank number `owner`."""

    owner: int
    is_read: bool
    identities: list[int]
    ready: Fraction  # when its first byte moves
    left: Fraction  # bytes
    end_ns: int | None = None


@dataclass
class Disk:
    """Capacity, contents and jobs. Bandwidths in decimal GB/s by direction; None has no limit."""

    capacity: int
    block_bytes: int
    latency_ns: int
    of_each: dict[bool, Fraction | None]  # by whether it is read
    of_all: dict[bool, Fraction | None]
    blocks: dict[int, DiskBlock] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)
    ended: list[Job] = field(default_factory=list)  # that their owners have not seen
    now: Fraction = Fraction(0)
    clock: int = 0
    changes: int = 0

    def _tick(self) -> int:
        self.clock += 1
        return self.clock

    def probe(self, identity: int) -> bool | None:
        """Use a block: whether it can be read, None if it is not there."""
        stamp, block = self._tick(), self.blocks.get(identity)
        if block is None:
            return None
        if block.resident:
            block.stamp = (stamp, 0)
        return block.resident

    def write(self, owner: int, identities: list[int], now_ns: int) -> list[int]:
        """Write what is missing, as far as there is room; what was used least recently makes room."""
        self.advance(now_ns)
        taken = []
        for identity in [identity for identity in identities if identity not in self.blocks]:
            if len(self.blocks) == self.capacity:
                idle = {
                    key: block.stamp
                    for key, block in self.blocks.items()
                    if block.resident and not block.readers and key not in identities
                }
                if not idle:
                    break
                del self.blocks[min(idle, key=lambda key: idle[key])]
            self.blocks[identity] = DiskBlock(owner)
            taken.append(identity)
        if taken:
            self._submit(owner, taken, is_read=False, now_ns=now_ns)
        return taken

    def read(self, owner: int, identities: list[int], now_ns: int) -> None:
        """Read blocks that can be read."""
        self.advance(now_ns)
        for identity in identities:
            self.blocks[identity].readers += 1
        self._submit(owner, identities, is_read=True, now_ns=now_ns)

    def _submit(self, owner: int, identities: list[int], is_read: bool, now_ns: int) -> None:
        self._move(max(self.now, Fraction(now_ns)))
        ready = max(self.now, Fraction(now_ns + self.latency_ns))
        size = Fraction(len(identities) * self.block_bytes)
        self.jobs.append(Job(owner, is_read, identities, ready, size))

    # Time -------------------------------------------------------------------------------------------

    def _speed(self, job: Job) -> Fraction | None:
        """Bytes per ns of a job that moves: its part of what its rank has, and of what all have."""
        moving = [other for other in self.jobs if other.ready <= self.now and other.is_read == job.is_read]
        mine = [other for other in moving if other.owner == job.owner]
        each, all_ = self.of_each[job.is_read], self.of_all[job.is_read]
        shares = [each / len(mine)] if each else []
        shares += [all_ / len(moving)] if all_ else []
        return min(shares, default=None)

    def _event(self, job: Job) -> Fraction:
        if job.ready > self.now:
            return job.ready
        speed = self._speed(job)
        return self.now + (job.left / speed if speed else 0)

    def next_ns(self) -> int | None:
        """When a job begins to move or ends."""
        return min((round(self._event(job)) for job in self.jobs), default=None)

    def _move(self, to: Fraction) -> None:
        speeds = [(job, self._speed(job)) for job in self.jobs if job.ready <= self.now]
        for job, speed in speeds:
            if speed:
                job.left -= speed * (to - self.now)
        self.now = to

    def advance(self, now_ns: int) -> None:
        """Let time pass: what ends takes effect in the order of time, then of submission."""
        while self.jobs and round(event := min(map(self._event, self.jobs))) <= now_ns:
            done = [job for job in self.jobs if job.ready <= self.now and self._event(job) <= event]
            self._move(event)
            for job in done:
                self.jobs.remove(job)
                job.end_ns = round(event)
                self._settle(job)

    def _settle(self, job: Job) -> None:
        stamp = self._tick()
        for depth, identity in enumerate(job.identities):
            block = self.blocks[identity]
            block.readers -= job.is_read
            block.resident, block.stamp = True, (stamp, -depth)
        self.changes += 1
        self.ended.append(job)

    def fetch(self, owner: int, now_ns: int) -> list[Job]:
        """What ended by now for a rank."""
        self.advance(now_ns)
        mine = [job for job in self.ended if job.owner == owner and (job.end_ns or 0) <= now_ns]
        self.ended = [job for job in self.ended if job not in mine]
        return mine


def make_disk(rank: dict[str, Any]) -> Disk:
    """The disk that a rank asks for."""
    disk = rank["g3_offload"]

    def gbps(name: str, default: float) -> Fraction | None:
        value = disk.get(f"{name}_bandwidth_gbps", default)
        return Fraction(str(value)) if value else None

    is_shared = disk["scope"] == "cluster_shared"
    return Disk(
        disk["num_g3_blocks"],
        rank["block_size"] * rank["kv_cache_bytes_per_token"],
        round(Fraction(str(disk.get("latency_to_first_byte_ms", 0.1))) * 1_000_000),
        {True: gbps("read", 10.0), False: gbps("write", 10.0)},
        {True: gbps("shared_read", 80.0), False: gbps("shared_write", 80.0)}
        if is_shared
        else {True: None, False: None},
    )
