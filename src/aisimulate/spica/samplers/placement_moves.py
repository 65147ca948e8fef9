"""Small changes of where a deployment runs: its backend, its shapes, its replicas."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from aisimulate.spica.parallel_enum import role_pools

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np

    from aisimulate.spica.parallel_enum import ParallelConfig

_MOST_REPLICAS_MOVED = 2


class PlacementMoves:
    """Finds neighbours among (backend, parallel config) pairs, by position in the list."""

    def __init__(self, placements: Sequence[tuple[str, ParallelConfig]]) -> None:
        self._count = len(placements)
        self._replicas: list[tuple[int, ...]] = []
        self._near_replicas: dict[int, list[int]] = {}
        # Positions that share all but the replicas, all but one role's pool, or all but the backend.
        self._families: list[list[Hashable]] = []
        self._members: dict[Hashable, list[int]] = defaultdict(list)
        for position, (backend, config) in enumerate(placements):
            pools = list(role_pools(config).values())
            self._replicas.append(tuple(pool.replicas for pool in pools))
            families: list[Hashable] = [
                ("replicas", backend, tuple(pool.shape for pool in pools)),
                ("backend", config),
            ]
            families += [
                ("pool", backend, role, tuple(pool for other, pool in enumerate(pools) if other != role))
                for role in range(len(pools))
            ]
            self._families.append(families)
            for family in families:
                self._members[family].append(position)

    def near(self, position: int, rng: np.random.Generator) -> int:
        """Choose a neighbour at random: other replicas most often, another pool, backend, or anything."""
        kind = rng.random()
        if kind < 0.4:
            return self._other_replicas(position, rng)
        if kind < 0.9:
            families = self._families[position][1:]
            members = self._members[families[int(rng.integers(len(families)))]]
            return members[int(rng.integers(len(members)))]
        return int(rng.integers(self._count))

    def _other_replicas(self, position: int, rng: np.random.Generator) -> int:
        near = self._near_replicas.get(position)
        if near is None:
            near = self._near_replicas[position] = self._with_few_replicas_moved(position)
        return near[int(rng.integers(len(near)))] if near else position

    def _with_few_replicas_moved(self, position: int) -> list[int]:
        mine = self._replicas[position]
        return [
            other
            for other in self._members[self._families[position][0]]
            if other != position
            and all(
                abs(theirs - own) <= _MOST_REPLICAS_MOVED
                for theirs, own in zip(self._replicas[other], mine, strict=True)
            )
        ]
