"""What a report says of the memory behind the GPUs: where prompts were found, and the traffic of disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.core.units import to_ms
from aisimulate.engine.offload_scheduler import Offloading
from aisimulate.engine.shared_host import SharedHost

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.engine.disk_tier import DiskTier, Traffic
    from aisimulate.engine.offload_state import HostSide
    from aisimulate.engine.protocols import Worker

Report = dict[str, Any]


class Tiers:
    """The host memories of all ranks, and the disks behind them."""

    def __init__(self, workers: Iterable[Worker] = ()) -> None:
        self._hosts: list[HostSide] = []
        for worker in workers:
            self.add(worker)

    def add(self, worker: Worker) -> None:
        """Count a worker in, from its first request on."""
        ranks = getattr(worker, "ranks", [])
        self._hosts += [rank.host for rank in ranks if isinstance(rank, Offloading)]

    def report(self, end_ns: int) -> Report:
        """Sum up the reuse of first admissions of completed requests by tier, and what disks did.

        `end_ns`: the end of the replay, up to which copies go on whoever looks at them.
        """
        if not self._hosts:
            return {}
        columns = zip(*(host.reused_tokens for host in self._hosts), strict=True)
        report: Report = {
            "first_admission_reused_tokens_by_tier": dict(
                zip(("device", "host", "disk"), map(sum, columns), strict=True)
            )
        }
        shared = dict.fromkeys(host.tier for host in self._hosts if isinstance(host.tier, SharedHost))
        if shared:
            report["g2_domains"] = [_domain_report(host, end_ns) for host in shared]
        if disks := list(dict.fromkeys(host.disk.tier for host in self._hosts if host.disk is not None)):
            report["g3_offload"] = _disk_report(disks)
        return report


def _domain_report(host: SharedHost, end_ns: int) -> Report:
    host.advance(end_ns)
    return {
        "capacity_blocks": host.capacity_blocks,
        "resident_blocks": host.resident_blocks,
        "used_blocks": host.capacity_blocks - host.free_blocks,
    }


def _disk_report(disks: list[DiskTier]) -> Report:
    stats = [disk.stats for disk in disks]
    block_bytes = disks[0].block_bytes
    report: Report = {
        "lookup_probes": sum(one.probes for one in stats),
        "lookup_hits": sum(one.hits for one in stats),
        "lookup_pending": sum(one.pending for one in stats),
        "read": _traffic_report([one.reads for one in stats], block_bytes),
        "write": _traffic_report([one.writes for one in stats], block_bytes),
        "evictions": sum(one.evictions for one in stats),
        "cross_worker_read_blocks": sum(one.cross_worker_blocks for one in stats),
        "resident_blocks": sum(disk.resident_blocks for disk in disks),
        "pending_blocks": sum(disk.pending_blocks for disk in disks),
    }
    if bypassed := sum(one.bypassed for one in stats):
        report["bypassed_restores"] = bypassed
    return report


def _traffic_report(traffic: list[Traffic], block_bytes: int) -> Report:
    return {
        "submitted_jobs": sum(one.submitted for one in traffic),
        "completed_jobs": sum(one.completed for one in traffic),
        "completed_bytes": block_bytes * sum(one.completed_blocks for one in traffic),
        "transfer_ms": to_ms(sum(one.transfer_ns for one in traffic)),
    }
