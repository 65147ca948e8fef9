"""Numbers that describe a deployment to a model: what it is, not how it was asked for."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.spica.parallel_enum import DisaggParallelConfig, role_pools

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from aisimulate.spica.finite_space import FinitePoint
    from aisimulate.spica.parallel_enum import ParallelConfig, ParallelShape
    from aisimulate.spica.search_space import BranchSpace

    Floats = NDArray[np.float64]

_LOG_GPUS = 3.0  # log2 of 8 GPUs is about one unit
_LOG_REPLICAS = 5.0
_LOG_BALANCE = 5.0
_LOWEST_RATIO = 5e-4


class PointFeatures:
    """Describes points of one branch: sizes as logarithms, numeric knobs by rank, others by kind."""

    def __init__(self, branch: BranchSpace, backends: Sequence[str]) -> None:
        self._backends = list(backends)
        sizes = [config.total_gpus for config in branch.parallel_configs]
        self._most_gpus = max(sizes, default=1)
        self._knobs = {
            name: _encoder(choices)
            for name, choices in branch.knob_choices.items()
            if name != "backend" and len(choices) > 1
        }

    def row(self, point: FinitePoint) -> list[float]:
        """Describe one point."""
        row = _kind(point.selection["backend"], self._backends)
        pools = list(role_pools(point.parallel_config).values())
        total_gpus = point.parallel_config.total_gpus
        for pool in pools:
            shape = pool.shape
            row += [
                math.log2(shape.gpus_per_worker) / _LOG_GPUS,
                math.log2(shape.dp) / _LOG_GPUS,
                math.log2(shape.moe_ep) / _LOG_GPUS,
                math.log2(shape.pp),
                math.log2(pool.replicas) / _LOG_REPLICAS,
            ]
        # What a fleet can carry goes with its size, and so does what it costs per GPU.
        row += [total_gpus / self._most_gpus, math.log2(total_gpus) / _LOG_GPUS]
        if len(pools) > 1:
            row.append(pools[0].total_gpus / total_gpus)
        for name, encode in self._knobs.items():
            row += encode(point.selection[name])
        return row


def engine_labels(placements: Sequence[tuple[str, ParallelConfig]]) -> NDArray[np.intp]:
    """Number the engines (a backend in a shape) of each placement, one column per role."""
    numbers: dict[tuple[str, ParallelShape], int] = {}
    rows = [
        [numbers.setdefault((backend, pool.shape), len(numbers)) for pool in role_pools(config).values()]
        for backend, config in placements
    ]
    return np.array(rows, dtype=np.intp)


def load_features(ratios: Floats) -> Floats:
    """Describe positions in [0, 1] within a range twice: the low end is worth a closer look."""
    return np.column_stack([ratios, np.log1p(1000.0 * ratios) / math.log(1001.0)])


def pair_balances(placements: Sequence[tuple[str, ParallelConfig]]) -> Floats | None:
    """Return the logarithm of decode GPUs per prefill GPU by placement; None where not all are pairs."""
    if not all(isinstance(config, DisaggParallelConfig) for _, config in placements):
        return None
    pools = [role_pools(config) for _, config in placements]
    return np.log([pair["decode"].total_gpus / pair["prefill"].total_gpus for pair in pools])


def balance_features(balances: Floats, ratios: Floats) -> Floats:
    """Describe which pool of a pair limits, as sizes tell: decode GPUs and load make requests in flight."""
    demand = balances + np.log(np.maximum(ratios, _LOWEST_RATIO))
    return np.column_stack([balances, demand]) / _LOG_BALANCE


def _encoder(choices: Sequence[Any]) -> Callable[[Any], list[float]]:
    if all(isinstance(choice, int | float) and not isinstance(choice, bool) for choice in choices):
        ranks = {choice: place for place, choice in enumerate(sorted(choices))}
        return lambda value: [ranks[value] / (len(ranks) - 1)]
    names = [_name(choice) for choice in choices]
    return lambda value: _kind(_name(value), names)


def _name(choice: object) -> str:
    return choice if isinstance(choice, str) else json.dumps(choice, sort_keys=True, default=str)


def _kind(name: str, names: Sequence[str]) -> list[float]:
    """One number per name; two names need only one."""
    if len(names) <= 2:
        return [float(name == names[0])] if len(names) == 2 else []
    return [float(name == other) for other in names]
