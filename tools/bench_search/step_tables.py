"""Step times and KV capacities of one model on one SKU, by worker shape, looked up in bulk.

The tables in `data/` are answers of AI Configurator's performance data; `make_tables.py` asks for them.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.spica.parallel_enum import ParallelShape, ReplicaParallelConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

DATA = Path(__file__).parent / "data"
KV_BLOCK_TOKENS = 64


class StepTables:
    """Tables of the engines ("vllm|tp|dp|moe_tp|moe_ep"); an engine is named by its row."""

    def __init__(self, name: str) -> None:
        with np.load(DATA / f"{name}.npz") as stored:
            about = json.loads(str(stored["meta"]))
            self.names = [str(key) for key in stored["keys"]]
            self._batches = stored["bgrid"].astype(float)
            self._chunks = stored["cgrid"].astype(float)
            self._decode_ms, self.prefill_ms, self._mixed_ms = stored["dec"], stored["pre"], stored["mix"]
            self.budgets = [int(budget) for budget in stored["mbt"]]
            # By engine and token budget; the number of sequences does not matter to the estimate.
            self.kv_tokens = stored["kv"][:, :, 0] // KV_BLOCK_TOKENS * KV_BLOCK_TOKENS
            self.raw_kv_tokens = stored["kv"][:, :, 0]
        self._batch_list: list[float] = self._batches.tolist()
        self._decode_rows: list[list[float]] = self._decode_ms.tolist()
        self.isl, self.osl = int(about["isl"]), int(about["osl"])
        sizes = [[int(size) for size in name.split("|")[1:]] for name in self.names]
        self.ranks = np.array([size[1] for size in sizes])
        self.gpus = np.array([size[0] * size[1] for size in sizes])

    @cached_property
    def engines(self) -> dict[tuple[str, ParallelShape], int]:
        """The row of every (backend, shape)."""
        parts = [name.split("|") for name in self.names]
        return {(p[0], ParallelShape(*map(int, p[1:]))): row for row, p in enumerate(parts)}

    def pools(self, backend: str, gpu_budget: int) -> list[ReplicaParallelConfig]:
        """List the pools of a backend that fit a budget."""
        return [
            ReplicaParallelConfig(shape, replicas)
            for name, shape in self.engines
            if name == backend
            for replicas in range(1, gpu_budget // shape.gpus_per_worker + 1)
        ]

    def decode_ms(self, engines: Ints, batches: Floats) -> Floats:
        """Time one token for each of `batches` sequences per rank; clamped to the table."""
        return _between(self._decode_ms[engines], self._batches, batches)

    def decode_ms_of(self, engine: int, batch: float) -> float:
        """Time one token for each of `batch` sequences per rank of one engine."""
        batches, row = self._batch_list, self._decode_rows[engine]
        if batch >= batches[-1]:
            return row[-1]
        left = max(bisect_right(batches, batch) - 1, 0)
        share = max(batch - batches[left], 0.0) / (batches[left + 1] - batches[left])
        return row[left] * (1.0 - share) + row[left + 1] * share

    def mixed_ms(self, engines: Ints, batches: Floats, chunk_tokens: Floats) -> Floats:
        """Time a pass of `batches` decoding sequences and a prompt chunk."""
        left, share = _place(self._chunks, chunk_tokens)
        low = _between(self._mixed_ms[engines, left], self._batches, batches)
        high = _between(self._mixed_ms[engines, left + 1], self._batches, batches)
        return low * (1.0 - share) + high * share


def _place(grid: Floats, at: Floats) -> tuple[Ints, Floats]:
    """Find the grid interval of each value, and how far along it lies."""
    inside = np.clip(at, grid[0], grid[-1])
    left = np.clip(np.searchsorted(grid, inside, side="right") - 1, 0, len(grid) - 2)
    return left, (inside - grid[left]) / (grid[left + 1] - grid[left])


def _between(rows: Floats, grid: Floats, at: Floats) -> Floats:
    """Interpolate each row of values on `grid` at its own place."""
    left, share = _place(grid, at)
    row = np.arange(len(rows))
    return np.asarray(rows[row, left] * (1.0 - share) + rows[row, left + 1] * share)
