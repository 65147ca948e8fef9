"""A rank with host memory for those who watch it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.held_pool import HeldPool
from aisimulate.engine.pass_view import BlockAudit, RankPass
from aisimulate.engine.vllm_view import VllmRankView

if TYPE_CHECKING:
    from aisimulate.engine.offload_scheduler import Offloading
    from aisimulate.engine.pass_view import Gauges


class OffloadView(VllmRankView):
    """A `RankView` that knows of requests set aside, and of the blocks kept for them."""

    __slots__ = ()

    _rank: Offloading

    @property
    def has_work(self) -> bool:
        """Whether it takes part in the next pass: a load that ends just then may let it."""
        return True

    def read(self, now_ns: int) -> RankPass:
        """Describe what was planned at `now_ns`: nothing, where other ranks of a group began a pass alone."""
        rank = self._rank
        if rank.host.in_pass or (rank.run_batch and rank.decoders.count):
            return super().read(now_ns)
        return RankPass(self._index, 0, 0)

    def gauges(self, run_passes: int = 0) -> Gauges:
        """Read the rank; who is set aside waits."""
        gauges = super().gauges(run_passes)
        return gauges._replace(waiting_requests=gauges.waiting_requests + len(self._rank.host.aside))

    def _audit_held(self, pool: HeldPool) -> BlockAudit:
        """Count blocks one by one."""
        held, private = pool.held_blocks, list(self._private_blocks())
        return BlockAudit(held + sum(private), pool.cached_blocks, held + len(private))

    @property
    def kept_blocks(self) -> int:
        """Most blocks that are held though nobody runs, for requests or for stores; they may share some."""
        pool = self._rank.pool
        stored = pool.read_blocks if isinstance(pool, HeldPool) else 0
        return stored + sum(state.restored for state in self._rank.host.aside.values())

    def tier_problem(self) -> str | None:
        """Tell what does not add up in host memory or on the disk."""
        host = self._rank.host
        disk_problem = None if host.disk is None else host.disk.tier.problem()
        return host.tier.problem() or disk_problem

    def audit(self) -> BlockAudit:
        """Count the blocks as on any rank, and those that loads are to fill."""
        pool = self._rank.pool
        audit = self._audit_held(pool) if isinstance(pool, HeldPool) else super().audit()
        arriving = [
            state.restored - state.found_blocks
            for state in self._rank.host.aside.values()
            if state.load is not None
        ]
        return audit._replace(held=audit.held + sum(arriving), steps=audit.steps + len(arriving))
