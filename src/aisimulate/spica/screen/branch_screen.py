"""The screen of a search: from selections of knobs to estimated objectives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.core.errors import UnsupportedError
from aisimulate.spica.parallel_enum import ROLES, role_pools
from aisimulate.spica.screen.closed_loop import ClosedLoop, screen_aggregated, screen_disaggregated
from aisimulate.spica.screen.columns import unknown
from aisimulate.spica.screen.engines import ScreenEngines
from aisimulate.spica.screen.goals import is_open, objective_columns
from aisimulate.spica.screen.open_loop import OpenLoop
from aisimulate.spica.screen.requests import requests_of
from aisimulate.spica.screen.structures import Structures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from aisimulate.spica.config import SmartSearchConfig
    from aisimulate.spica.parallel_enum import ParallelConfig
    from aisimulate.spica.screen.columns import EstimateColumns, PoolColumns
    from aisimulate.spica.screen.engines import RolePoint
    from aisimulate.spica.search_space import BranchSpace

    # What a sampler knows of a candidate: its knobs, and its workers.
    Point = tuple[Mapping[str, Any], ParallelConfig]
    Floats = NDArray[np.float64]


_MOST_LEARNT = 100_000


class BranchScreen:
    """Estimates candidates of a search that `no_screen_reason` finds none against.

    `context_tokens` is the longest sequence that the model takes. Where requests arrive by themselves, all of
    the `branches` are estimated at the first question, if they are not too large: few at a time take longer.
    `engines` are those of the search.
    Raises UnsupportedError when the requests of an open loop depend on each other.
    """

    def __init__(
        self,
        config: SmartSearchConfig,
        backend_versions: Mapping[str, str],
        context_tokens: int | None = None,
        branches: Sequence[BranchSpace] = (),
    ) -> None:
        self._config = config
        self._unknown = {branch.deployment_mode: branch for branch in branches}
        self.engines = ScreenEngines(config, backend_versions)
        self._open = self._open_loop(context_tokens) if is_open(config.workload) else None

    def _open_loop(self, context_tokens: int | None) -> OpenLoop:
        requests, space = requests_of(self._config.workload, context_tokens), self._config.search_space
        if requests is None:
            raise UnsupportedError("requests that wait for the answers to others cannot be screened")
        roles = ("agg", "prefill", "decode")
        caching = {role: getattr(space, f"{role}_enable_prefix_caching") for role in roles}
        return OpenLoop(requests, self._config.goal.sla, self.engines.book, caching=caching)

    def objectives(self, points: Sequence[Point]) -> list[list[float] | None]:
        """Estimate what a sampler is told: the signed score, or the raw values of a front, in order.

        None for a candidate that cannot run. All candidates are of one deployment mode.
        """
        if not points:
            return []
        self._learn_branch(points[0][0]["deployment_mode"])
        values, goal = objective_columns(self.estimate(points), self._config.goal.targets), self._config.goal
        if not goal.is_pareto and not goal.target.maximize:
            values = -values
        return [row if np.isfinite(row).all() else None for row in values.tolist()]

    def _learn_branch(self, mode: str) -> None:
        """Estimate all of a branch under an open loop; later questions find the answers there."""
        branch = self._unknown.pop(mode, None)
        if self._open is None or branch is None:
            return
        structures = Structures(branch, split=False)
        if len(structures.units) <= _MOST_LEARNT:
            self.estimate(
                [({**knobs, "deployment_mode": mode}, config) for knobs, config in structures.units]
            )

    def estimate(self, points: Sequence[Point]) -> EstimateColumns:
        """Estimate candidates of one deployment mode; NaN for one that cannot run."""
        mode = points[0][0]["deployment_mode"]
        pools = {role: self.engines.columns(role, role_points(role, points)) for role in ROLES[mode]}
        concurrency = self._concurrency([selection for selection, _ in points], list(pools.values())[-1])
        return self.estimate_columns(list(pools.values()), concurrency)

    def estimate_columns(self, pools: Sequence[PoolColumns], concurrency: Floats) -> EstimateColumns:
        """Estimate candidates given as one pool each, or as a prefill and a decode pool.

        `concurrency` is of no account where requests arrive by themselves.
        """
        workload = self._config.workload
        runs = (concurrency >= 1) | (self._open is not None)
        for pool in pools:
            runs &= pool.kv_tokens >= (workload.isl or 1)
        found = unknown(np.sum([pool.gpus for pool in pools], axis=0))
        rows = np.flatnonzero(runs)
        if not len(rows):
            return found
        found.put(rows, self._known([pool.take(rows) for pool in pools], concurrency[rows]))
        return found

    def _known(self, pools: list[PoolColumns], concurrency: Floats) -> EstimateColumns:
        """Estimate candidates that can run."""
        if self._open is not None:
            return self._open.disaggregated(*pools) if len(pools) > 1 else self._open.aggregated(*pools)
        workload, book = self._config.workload, self.engines.book
        assert workload.isl and workload.osl and workload.num_request_ratio
        waves = max(1.0, workload.num_request_ratio)
        load = ClosedLoop(workload.isl, workload.osl, concurrency, waves)
        if len(pools) == 1:
            return screen_aggregated(pools[0], load, book)
        return screen_disaggregated(pools[0], pools[1], load, book)

    def _concurrency(self, selections: Sequence[Mapping[str, Any]], last: PoolColumns) -> Floats:
        """Return the requests in flight per candidate; 0 where not even one fits."""
        workload = self._config.workload
        if workload.concurrency is not None:
            return np.full(len(selections), float(workload.concurrency))
        if workload.kv_load_ratio is None:
            return np.zeros(len(selections))
        held = self.capacity(last)
        ratios = np.array([selection["kv_load_ratio"] for selection in selections])
        return np.where(held < 1, 0.0, np.maximum(1.0, np.floor(ratios * held)))

    def capacity_of(self, selection: Mapping[str, Any], config: ParallelConfig) -> int:
        """Count the requests of mean length that one candidate holds."""
        last = list(role_pools(config))[-1]
        columns = self.engines.columns(last, role_points(last, [(selection, config)]))
        return int(self.capacity(columns)[0])

    def capacity(self, last: PoolColumns) -> NDArray[np.int64]:
        """Count the requests of mean length that fit the cache of the last role; 0 where lengths differ."""
        workload = self._config.workload
        if workload.isl is None or workload.osl is None:
            return np.zeros_like(last.kv_tokens)
        return last.kv_tokens * last.total_ranks // (workload.isl + workload.osl // 2)


def role_points(role: str, points: Sequence[Point]) -> list[RolePoint]:
    """Take one role out of candidates."""
    tokens, seqs = f"{role}_max_num_batched_tokens", f"{role}_max_num_seqs"
    return [
        (selection["backend"], role_pools(config)[role], selection[tokens], selection[seqs])
        for selection, config in points
    ]
