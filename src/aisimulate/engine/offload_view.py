"""A rank with host memory for those who watch it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.vllm_view import VllmRankView

if TYPE_CHECKING:
    from aisimulate.engine.offload_scheduler import Offloading
    from aisimulate.engine.pass_view import BlockAudit, Gauges


class OffloadView(VllmRankView):
    """A `RankView` that knows of requests set aside, and of the blocks kept for them."""

    __slots__ = ()

    _rank: Offloading

    @property
    def has_work(self) -> bool:
        """Whether it takes part in the next pass: a load that ends just then may let it."""
        return True

    def gauges(self, run_passes: int = 0) -> Gauges:
        """Read the rank; who is set aside waits."""
        gauges = super().gauges(run_passes)
        return gauges._replace(waiting_requests=gauges.waiting_requests + len(self._rank.host.aside))

    @property
    def kept_blocks(self) -> int:
        """Most blocks that are held for requests that do not run yet; they may share some."""
        return sum(state.restored for state in self._rank.host.aside.values())

    def tier_problem(self) -> str | None:
        """Tell what does not add up in host memory or on the disk."""
        host = self._rank.host
        disk_problem = None if host.disk is None else host.disk.tier.problem()
        return host.tier.problem() or disk_problem

    def audit(self) -> BlockAudit:
        """Count the blocks as on any rank, and those that loads are to fill."""
        audit = super().audit()
        arriving = [
            state.restored - state.found_blocks
            for state in self._rank.host.aside.values()
            if state.load is not None
        ]
        return audit._replace(held=audit.held + sum(arriving), steps=audit.steps + len(arriving))
