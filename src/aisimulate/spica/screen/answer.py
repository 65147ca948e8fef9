"""`aisimulate screen`: what formulas alone say of a whole search space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.core.errors import UnsupportedError
from aisimulate.spica.config_goal import DEFAULT_PARETO, OptimizationTarget
from aisimulate.spica.kv_estimate import resolve_backend_version
from aisimulate.spica.kv_load import KVLoadResolution, resolve_kv_load
from aisimulate.spica.plan import plan_search
from aisimulate.spica.planner import enables_scaling
from aisimulate.spica.pool_gp.design import spread_over_front
from aisimulate.spica.pool_gp.fronts import front
from aisimulate.spica.sample import unroll_sample
from aisimulate.spica.screen.branch_screen import BranchScreen
from aisimulate.spica.screen.columns import EstimateColumns, doubt_texts, join_estimates
from aisimulate.spica.screen.goals import VALUES, no_screen_reason, objective_columns
from aisimulate.spica.screen.requests import SCREEN_ROWS
from aisimulate.spica.screen.whole_pool import PoolScreen, screen_branch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from aisimulate.spica.config import SmartSearchConfig
    from aisimulate.spica.plan import SearchPlan
    from aisimulate.spica.screen.whole_pool import OnBlock

    Floats = NDArray[np.float64]

# Goals that copies of a deployment meet as one of them does.
_SCALE_FREE = frozenset(
    {
        OptimizationTarget.THROUGHPUT_PER_GPU,
        OptimizationTarget.THROUGHPUT_PER_USER,
        OptimizationTarget.E2E_LATENCY,
        OptimizationTarget.TTFT,
        OptimizationTarget.GOODPUT_PER_GPU,
    }
)
_SMALLEST = 1e-12


@dataclass(frozen=True, slots=True)
class ScreenedPoint:
    """One deployment and its estimate. `config` is its unrolled sample, `values` are in natural units.

    `copies` lists the other numbers of copies that do the same per GPU (empty when the goal counts totals),
    `equal` counts deployments with other knobs of which the screen says the same.
    """

    config: dict[str, Any]
    used_gpus: int
    values: dict[str, float]
    doubts: tuple[str, ...]
    copies: tuple[int, ...] = ()
    equal: int = 0


@dataclass(frozen=True, slots=True)
class ScreenAnswer:
    """The best points (of a scalar goal), and the front. `points` were estimated by `computed` rows.

    `cannot_run` of the points hold no request or have no data; `doubtful` of them have a doubt.
    """

    plan: SearchPlan
    backend_versions: dict[str, str]
    best: list[ScreenedPoint]
    front: list[ScreenedPoint]
    front_targets: tuple[OptimizationTarget, ...]
    front_size: int
    points: int
    computed: int
    cannot_run: int
    doubtful: int
    notes: list[str] = field(default_factory=list)


def screen_config(config: SmartSearchConfig, *, top: int, on_block: OnBlock | None = None) -> ScreenAnswer:
    """Estimate every deployment of a search, without a replay.

    Raises what planning the search raises, and UnsupportedError when its traffic or goal cannot be screened.
    """
    config, notes = _static_part(config)
    plan = plan_search(config)
    reason = no_screen_reason(plan.config)
    if reason is not None:
        raise UnsupportedError(f"no estimate: {reason}")
    sku, asked = plan.config.search_space.hardware_sku, plan.config.search_space.backend_version
    versions = {name: resolve_backend_version(sku, name, asked.get(name)) for name in plan.backends}
    screen = BranchScreen(plan.config, versions, plan.model_context_tokens)
    pools = [screen_branch(plan.config, branch, screen, on_block) for branch in plan.branches]
    return _Ranking(plan, versions, pools).answer(top, [*plan.notes, *notes])


def _static_part(config: SmartSearchConfig) -> tuple[SmartSearchConfig, list[str]]:
    """Leave out what formulas know nothing of, with notes; the search itself would try it."""
    space, notes = config.search_space, []
    static = [policy for policy in space.planner_scaling_policy if not enables_scaling(policy)]
    if static and len(static) < len(space.planner_scaling_policy):
        notes.append("planner_scaling_policy: fleets that scale are not estimated, only fixed ones")
        space = space.model_copy(update={"planner_scaling_policy": static})
    if set(space.router_mode) != {"round_robin"}:
        notes.append("router_mode: every router is estimated as round_robin")
    if config.workload.is_trace_based:
        notes.append(
            f"workload.trace_path: of a longer trace, the first {SCREEN_ROWS:,} requests are estimated"
        )
    return config.model_copy(update={"search_space": space}), notes


class _Ranking:
    """All branches together: one row per unit and load, or one per point when the goal counts totals."""

    def __init__(self, plan: SearchPlan, versions: dict[str, str], pools: Sequence[PoolScreen]) -> None:
        self._plan = plan
        self._versions = versions
        self._pools = pools
        self._goal = plan.config.goal
        front_targets = self._goal.targets if self._goal.is_pareto else list(DEFAULT_PARETO)
        self._front_targets = tuple(front_targets)
        self._by_unit = set(self._goal.targets) <= _SCALE_FREE
        parts = [pool.estimates if self._by_unit else pool.every_point() for pool in pools]
        self._starts = np.cumsum([0, *(len(part.gpus) for part in parts)])
        self._all = join_estimates(parts)
        self._runs = np.flatnonzero(np.isfinite(self._all.output_tok_s))

    def answer(self, top: int, notes: list[str]) -> ScreenAnswer:
        """Choose what to show."""
        gains = self._gains(self._front_targets)
        on_front = front(gains)
        members = self._runs[on_front]
        shown = [members[row] for row in spread_over_front(gains[on_front], top)]
        first = VALUES[self._front_targets[-1]](self._all)
        shown.sort(key=lambda row: float(first[row]))
        points = [pool.rows.point_rows for pool in self._pools]
        fine = [np.isfinite(pool.estimates.output_tok_s) for pool in self._pools]
        doubts = [pool.estimates.doubts > 0 for pool in self._pools]
        return ScreenAnswer(
            plan=self._plan,
            backend_versions=self._versions,
            best=[] if self._goal.is_pareto else self._best(top),
            front=[self._point(int(row)) for row in shown],
            front_targets=self._front_targets,
            front_size=len(members),
            points=sum(map(len, points)),
            computed=sum(len(pool.rows.units) for pool in self._pools),
            cannot_run=sum(int((~ok[rows]).sum()) for ok, rows in zip(fine, points, strict=True)),
            doubtful=sum(
                int((ok & bad)[rows].sum()) for ok, bad, rows in zip(fine, doubts, points, strict=True)
            ),
            notes=notes,
        )

    def _gains(self, targets: Sequence[OptimizationTarget]) -> Floats:
        """Return the values of the rows that run, more is better."""
        return _as_gains(self._all.take(self._runs), targets)

    def _best(self, top: int) -> list[ScreenedPoint]:
        """Take the best rows; those that only differ in knobs which do not matter are one."""
        gains = self._gains(self._goal.targets)[:, 0]
        order = self._runs[np.lexsort((np.arange(len(gains)), self._all.gpus[self._runs], -gains))]
        folds: dict[tuple[object, ...], list[int]] = {}
        for row in order.tolist():
            key = self._fold_key(row)
            if key not in folds and len(folds) == top:
                break
            folds.setdefault(key, []).append(row)
        return [self._point(rows[0], len(rows) - 1) for rows in folds.values()]

    def _fold_key(self, row: int) -> tuple[object, ...]:
        pool, place = self._locate(row)
        structure = self._structures(pool, place)[0]
        selection, config = pool.structures.point(structure)
        estimate = self._all
        return (
            selection["backend"],
            config,
            *(float(getattr(estimate, name)[row]) for name in ("output_tok_s", "tok_s_user", "e2e_ms")),
        )

    def _locate(self, row: int) -> tuple[PoolScreen, int]:
        """Return the branch of a row, and its number there."""
        branch = int(np.searchsorted(self._starts, row, "right")) - 1
        return self._pools[branch], row - int(self._starts[branch])

    def _structures(self, pool: PoolScreen, place: int) -> list[int]:
        """List the structures of a row, fewest copies first."""
        if not self._by_unit:
            return [int(pool.rows.point_structures[place])]
        found = pool.rows.point_structures[pool.rows.point_rows == place]
        return [int(number) for number in found[np.argsort(pool.structures.copies[found], kind="stable")]]

    def _point(self, row: int, equal: int = 0) -> ScreenedPoint:
        pool, place = self._locate(row)
        structures = self._structures(pool, place)
        copies = [int(pool.structures.copies[number]) for number in structures]
        unit_row = place if self._by_unit else int(pool.rows.point_rows[place])
        in_flight = float(pool.rows.loads[unit_row]) * copies[0]
        factor = copies[0] if self._by_unit else 1
        estimate = self._all.take(np.array([row]))
        sample = _sample(self._plan.config, pool, structures[0], round(in_flight), self._versions)
        return ScreenedPoint(
            config=sample,
            used_gpus=int(sample["used_gpus"]),
            values=_values(estimate, factor),
            doubts=doubt_texts(int(estimate.doubts[0])),
            copies=tuple(copies[1:]),
            equal=equal,
        )


def _as_gains(estimate: EstimateColumns, targets: Sequence[OptimizationTarget]) -> Floats:
    values = objective_columns(estimate, targets)
    rising = np.array([target.maximize for target in targets])
    gains: Floats = np.where(rising, values, 1.0 / np.maximum(values, _SMALLEST))
    return np.maximum(gains, _SMALLEST)


def _values(estimate: EstimateColumns, factor: int) -> dict[str, float]:
    """Give the figures of one row; `factor` copies of it serve as many requests more."""
    figures = {target.value: float(value(estimate)[0]) for target, value in VALUES.items()}
    for total in (OptimizationTarget.THROUGHPUT.value, OptimizationTarget.GOODPUT.value):
        if total in figures:
            figures[total] *= factor
    return {name: value for name, value in figures.items() if np.isfinite(value)}


def _sample(
    config: SmartSearchConfig, pool: PoolScreen, structure: int, in_flight: int, versions: dict[str, str]
) -> dict[str, Any]:
    """Describe a deployment as a search does, its load included."""
    selection, parallel_config = pool.structures.point(structure)
    sample = unroll_sample(
        search_space=config.search_space, selection=selection, parallel_config=parallel_config
    )
    version = sample["backend_version"] = versions[sample["backend"]]
    workload = config.workload
    if workload.concurrency is not None:
        sample["concurrency"] = workload.concurrency
    if workload.kv_load_ratio is None:
        return sample

    def resolved(ratio: float) -> KVLoadResolution:
        return resolve_kv_load(
            sample, workload=workload, parallel_config=parallel_config, ratio=ratio, backend_version=version
        )

    bounds = workload.kv_load_ratio_range
    if bounds is None:
        return sample | resolved(selection["kv_load_ratio"]).sample_fields()
    ratio = (in_flight + 0.5) / resolved(bounds[0]).concurrency_capacity
    return sample | resolved(min(max(ratio, bounds[0]), bounds[1])).sample_fields()
