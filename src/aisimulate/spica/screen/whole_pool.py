"""A whole branch at once: every structure at every load, each unit computed once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.spica.parallel_enum import ROLES
from aisimulate.spica.screen.branch_screen import BranchScreen, role_points
from aisimulate.spica.screen.columns import EstimateColumns, PoolColumns, join_estimates
from aisimulate.spica.screen.goals import is_open
from aisimulate.spica.screen.structures import Structures

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from aisimulate.spica.config import SmartSearchConfig
    from aisimulate.spica.search_space import BranchSpace

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    # Told after each block: rows done, rows in all.
    OnBlock = Callable[[int, int], None]

_LOADS = 60  # per structure where the load is a range, half of them evenly apart, half by factors
_BLOCK, _OPEN_BLOCK = 1 << 16, 1 << 13  # rows at a time


@dataclass(frozen=True, slots=True)
class Rows:
    """What is computed: `units` at `loads` (requests in flight per unit), and the points they stand for.

    Point p is structure `point_structures[p]`, which is copies of row `point_rows[p]`.
    """

    units: Ints
    loads: Floats
    point_structures: Ints
    point_rows: Ints


@dataclass(frozen=True, slots=True)
class PoolScreen:
    """A screened branch: one estimate per row."""

    structures: Structures
    rows: Rows
    estimates: EstimateColumns

    def every_point(self) -> EstimateColumns:
        """Write all copies out: one estimate per point."""
        copies = self.structures.copies[self.rows.point_structures]
        found = self.estimates.take(self.rows.point_rows)
        return replace(
            found,
            output_tok_s=found.output_tok_s * copies,
            goodput_tok_s=found.goodput_tok_s * copies,
            gpus=found.gpus * copies,
        )


def screen_branch(
    config: SmartSearchConfig, branch: BranchSpace, screen: BranchScreen, on_block: OnBlock | None = None
) -> PoolScreen:
    """Estimate every structure of a branch at every load."""
    arrive = is_open(config.workload)
    structures = Structures(branch, split=not arrive)
    roles, units = ROLES[branch.deployment_mode], structures.units
    pools = [screen.engines.columns(role, role_points(role, units)) for role in roles]
    rows = _rows(config, branch, structures, screen.capacity(pools[-1]))
    block = _OPEN_BLOCK if arrive else _BLOCK
    return PoolScreen(structures, rows, _in_blocks(screen, pools, rows, block, on_block))


def _rows(config: SmartSearchConfig, branch: BranchSpace, structures: Structures, capacity: Ints) -> Rows:
    bounds = branch.float_ranges.get("kv_load_ratio")
    if bounds is not None:
        return _rows_of_range(structures, [_load_range(*bounds, held) for held in capacity.tolist()])
    if config.workload.concurrency is not None:
        asked = np.full(len(structures.owners), float(config.workload.concurrency))
    elif config.workload.kv_load_ratio is None:
        asked = np.zeros(len(structures.owners))
    else:
        asked = _fixed_ratio(structures, capacity[structures.owners] * structures.copies)
    keys = np.column_stack([structures.owners, asked / structures.copies])
    rows, places = np.unique(keys, axis=0, return_inverse=True)
    every = np.arange(len(structures.owners))
    return Rows(rows[:, 0].astype(np.int64), rows[:, 1], every, places.reshape(-1))


def _rows_of_range(structures: Structures, loads: list[Ints]) -> Rows:
    """Give every structure all loads of its unit."""
    sizes = np.array([len(each) for each in loads], dtype=np.int64)
    first, owners = np.cumsum(sizes) - sizes, structures.owners
    counts = sizes[owners]
    point_structures = np.repeat(np.arange(len(owners)), counts)
    within = np.arange(len(point_structures)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Rows(
        units=np.repeat(np.arange(len(loads)), sizes),
        loads=np.concatenate(loads).astype(np.float64),
        point_structures=point_structures,
        point_rows=first[owners][point_structures] + within,
    )


def _load_range(low: float, high: float, held: int) -> Ints:
    """Choose requests in flight of a unit that holds `held` of them: evenly apart, and by factors."""
    if held < 1:
        return np.zeros(1, dtype=np.int64)
    least, most = max(1, int(low * held)), max(1, int(high * held))
    if most - least < _LOADS:
        return np.arange(least, most + 1)
    even = np.linspace(least, most, _LOADS // 2)
    factors = np.geomspace(least, most, _LOADS - _LOADS // 2)
    return np.unique(np.rint(np.concatenate([even, factors])).astype(np.int64))


def _fixed_ratio(structures: Structures, capacity: Ints) -> Floats:
    """Return the requests in flight of a pinned share of the cache, by structure."""
    ratios = np.array([selection["kv_load_ratio"] for selection, _ in structures.units])[structures.owners]
    return np.where(capacity < 1, 0.0, np.maximum(1.0, np.floor(ratios * capacity)))


def _in_blocks(
    screen: BranchScreen, pools: list[PoolColumns], rows: Rows, block: int, on_block: OnBlock | None
) -> EstimateColumns:
    parts, total = [], len(rows.units)
    for start in range(0, total, block):
        units = rows.units[start : start + block]
        taken = [pool.take(units) for pool in pools]
        parts.append(screen.estimate_columns(taken, rows.loads[start : start + block]))
        if on_block is not None:
            on_block(min(start + block, total), total)
    return join_estimates(parts)
