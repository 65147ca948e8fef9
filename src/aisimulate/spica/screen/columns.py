"""Candidates and their estimates as columns: one row per candidate."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]


class Doubt(IntFlag):
    """Why an estimate may be off (spec 08 section 2.2)."""

    KV_PRESSURE = 1
    FEW_PER_RANK = 2
    LONG_PROMPTS = 4
    PREFILL_LIMIT = 8
    OVERLOAD = 16
    RANKS_IN_STEP = 32


DOUBT_TEXTS = {
    Doubt.KV_PRESSURE: "KV cache under pressure",
    Doubt.FEW_PER_RANK: "few requests per rank",
    Doubt.LONG_PROMPTS: "prompts longer than a pass",
    Doubt.PREFILL_LIMIT: "prefill near its limit",
    Doubt.OVERLOAD: "more traffic than it can serve",
    Doubt.RANKS_IN_STEP: "ranks that run in step",
}


def doubt_texts(doubts: int) -> tuple[str, ...]:
    """Spell out doubts."""
    return tuple(text for doubt, text in DOUBT_TEXTS.items() if doubts & doubt)


@dataclass(frozen=True, slots=True)
class PoolColumns:
    """The pool of one role per row: equal workers of `ranks` ranks, every rank with `kv_tokens` of cache.

    `engines` are numbers of a `StepBook`; `splits_budget` marks backends that divide the budget of a pass
    among the ranks of a worker and let ranks run in step (SGLang).
    """

    engines: Ints
    splits_budget: Bools
    replicas: Ints
    ranks: Ints
    gpus: Ints
    max_batched_tokens: Ints
    max_seqs: Ints
    kv_tokens: Ints

    @property
    def total_ranks(self) -> Ints:
        """Ranks of the whole pool."""
        return self.replicas * self.ranks

    def take(self, rows: Ints | slice) -> PoolColumns:
        """Return some of the rows."""
        return PoolColumns(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class EstimateColumns:
    """What replays would report, more or less; NaN for what cannot run. `doubts` are sums of `Doubt`.

    `goodput_tok_s` is NaN where no SLA was given or the screen cannot tell.
    """

    output_tok_s: Floats
    tok_s_user: Floats
    ttft_ms: Floats
    e2e_ms: Floats
    gpus: Ints
    doubts: Ints
    goodput_tok_s: Floats

    def take(self, rows: Ints) -> EstimateColumns:
        """Return some of the rows, in that order."""
        return EstimateColumns(*(getattr(self, name)[rows] for name in self.__slots__))

    def as_rows(self) -> list[tuple[float, ...]]:
        """Return one tuple per row, for `estimates_of`."""
        return list(zip(*(getattr(self, name).tolist() for name in self.__slots__), strict=True))

    def put(self, rows: Ints, others: EstimateColumns) -> None:
        """Replace some of the rows."""
        for name in self.__slots__:
            getattr(self, name)[rows] = getattr(others, name)


def unknown(gpus: Ints) -> EstimateColumns:
    """Make estimates of what cannot run."""
    count = len(gpus)
    return EstimateColumns(
        output_tok_s=np.full(count, np.nan),
        tok_s_user=np.full(count, np.nan),
        ttft_ms=np.full(count, np.nan),
        e2e_ms=np.full(count, np.nan),
        gpus=gpus.copy(),
        doubts=np.zeros(count, dtype=np.int64),
        goodput_tok_s=np.full(count, np.nan),
    )


def estimates_of(rows: list[tuple[float, ...]]) -> EstimateColumns:
    """Make columns of rows."""
    output, user, ttft, e2e, gpus, doubts, goodput = np.array(rows, dtype=np.float64).reshape(-1, 7).T
    return EstimateColumns(output, user, ttft, e2e, gpus.astype(np.int64), doubts.astype(np.int64), goodput)


def join_estimates(parts: list[EstimateColumns]) -> EstimateColumns:
    """Put estimates one behind the other."""
    return EstimateColumns(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in EstimateColumns.__slots__)
    )
