"""What a screen must know of the engines of a search: their step times, and what their caches hold."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.core.errors import AISimulateError
from aisimulate.spica.kv_estimate import estimate_kv_tokens, shape_engine_key
from aisimulate.spica.limits import SGLANG_CHUNK_TOKENS
from aisimulate.spica.screen.columns import PoolColumns
from aisimulate.spica.screen.step_book import StepBook
from aisimulate.spica.screen.step_times import EngineStepTimes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.spica.config import SmartSearchConfig
    from aisimulate.spica.parallel_enum import ParallelShape, ReplicaParallelConfig

# A role of one candidate: backend, workers, tokens per pass, sequences at once.
RolePoint = tuple[str, "ReplicaParallelConfig", int, int]


class ScreenEngines:
    """Engines by backend and shape. `book` prices their steps."""

    def __init__(self, config: SmartSearchConfig, backend_versions: Mapping[str, str]) -> None:
        self.book = StepBook()
        self._space = config.search_space
        self._engines: dict[str, dict[str, Any]] = {
            backend: {
                "model_name": self._space.model_name,
                "hardware_sku": self._space.hardware_sku,
                "backend": backend,
                "backend_version": version,
                "allow_model_download": self._space.allow_model_download,
            }
            for backend, version in backend_versions.items()
        }
        self._number = lru_cache(maxsize=None)(self._new_number)
        self._tokens = lru_cache(maxsize=None)(self._new_tokens)

    def columns(self, role: str, points: Sequence[RolePoint]) -> PoolColumns:
        """Turn the same role of many candidates into columns; one that cannot run has a cache of 0 tokens."""
        rows = [self._row(role, *point) for point in points]
        table = np.array(rows, dtype=np.int64).reshape(len(rows), -1).T
        engines, splits, *others = table
        return PoolColumns(engines, splits.astype(bool), *others)

    def _row(
        self, role: str, backend: str, pool: ReplicaParallelConfig, budget: int, seqs: int
    ) -> tuple[int, ...]:
        shape = pool.shape
        number, tokens = self._number(backend, shape), self._tokens(backend, shape, role, budget)
        splits = backend == "sglang"
        held = tokens if number >= 0 else 0
        passes = SGLANG_CHUNK_TOKENS if splits else budget
        return max(number, 0), splits, pool.replicas, shape.dp, pool.total_gpus, passes, seqs, held

    def _new_number(self, backend: str, shape: ParallelShape) -> int:
        """Return the number of an engine in the book, -1 for one that cannot be built."""
        try:
            return self.book.add(EngineStepTimes(shape_engine_key(shape, **self._engines[backend])))
        except AISimulateError:
            return -1

    def _new_tokens(self, backend: str, shape: ParallelShape, role: str, max_num_tokens: int) -> int:
        """Return the tokens that a rank holds in whole blocks; 0 where that cannot be told."""
        fraction = getattr(self._space, f"{role}_gpu_memory_utilization")
        block_tokens: int = getattr(self._space, f"{role}_block_size")
        blocks: int | None = getattr(self._space, f"{role}_num_gpu_blocks")
        if blocks is not None:
            return blocks * block_tokens
        try:
            tokens = estimate_kv_tokens(
                shape, **self._engines[backend], max_num_tokens=max_num_tokens, memory_fraction=fraction
            )
        except AISimulateError:
            return 0
        return (tokens or 0) // block_tokens * block_tokens
