"""Candidates under requests that arrive by themselves: a trace, or a rate (spec 08 section 3, screen T2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.spica.screen.columns import Doubt, EstimateColumns, PoolColumns, estimates_of
from aisimulate.spica.screen.decode_grid import NO_DATA_MS, DecodeGrid
from aisimulate.spica.screen.lanes import LaneSettings, Served, Traffic, serve
from aisimulate.spica.screen.prompt_work import PromptWork

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aisimulate.spica.config import SLATarget
    from aisimulate.spica.screen.requests import Requests
    from aisimulate.spica.screen.step_book import StepBook

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

# Requests of all candidates that are looked at together: what fits into some hundred MB.
_MOST_TOGETHER = 1 << 20
# Of the outputs still to come, what SGLang keeps room for on average.
_SGLANG_RESERVE = 0.25
# Doubts: requests that wait for room in the cache, time that is needed after the last arrival.
_LATE_SHARE, _DRAIN_SHARE = 0.02, 1.25


class OpenLoop:
    """Estimates candidates for one list of requests; `caching` tells by role whether prefixes are kept."""

    def __init__(
        self, requests: Requests, sla: SLATarget | None, book: StepBook, *, caching: dict[str, bool]
    ) -> None:
        self._requests, self._sla, self._book, self._caching = requests, sla, book, caching
        self._longest = int(requests.prompts.max(initial=1))
        self._work = lru_cache(maxsize=None)(self._new_work)
        self._prompts = lru_cache(maxsize=256)(self._new_prompts)
        self._known: dict[bytes, tuple[float, ...]] = {}
        self._dealt = lru_cache(maxsize=None)(self._new_dealt)

    def aggregated(self, pool: PoolColumns) -> EstimateColumns:
        """Estimate aggregated deployments."""
        return self._in_groups(pool, None)

    def disaggregated(self, prefill: PoolColumns, decode: PoolColumns) -> EstimateColumns:
        """Estimate pairs of a prefill and a decode pool."""
        return self._in_groups(decode, prefill)

    def _in_groups(self, pool: PoolColumns, prefill: PoolColumns | None) -> EstimateColumns:
        """Look at candidates with about as many ranks together: their lanes end at about the same step.

        Those that differ only in what never matters are looked at once.
        """
        pool, prefill = self._what_matters(pool, prefill)
        first, places = _distinct(pool, prefill)
        pool, prefill = pool.take(first), None if prefill is None else prefill.take(first)
        kinds = _kinds(pool, prefill)
        fresh = np.array([row for row, kind in enumerate(kinds) if kind not in self._known], dtype=np.int64)
        for rows in self._groups(pool.total_ranks, fresh):
            chosen = None if prefill is None else prefill.take(rows)
            found = self._group(pool.take(rows), chosen)
            self._known.update(zip((kinds[row] for row in rows), found.as_rows(), strict=True))
        return estimates_of([self._known[kind] for kind in kinds]).take(places)

    def _what_matters(
        self, pool: PoolColumns, prefill: PoolColumns | None
    ) -> tuple[PoolColumns, PoolColumns | None]:
        """Bound what is never reached, so that candidates that do the same look the same."""
        pool = replace(pool, max_seqs=np.minimum(pool.max_seqs, self._largest_batches(pool)))
        if prefill is None:
            return pool, None
        short = max(1, int(np.quantile(self._requests.prompts, 0.1)))
        fitting = -(-prefill.max_batched_tokens // short)
        held = np.array([self._requests.reuse.coarse(tokens) for tokens in prefill.kv_tokens.tolist()])
        return pool, replace(prefill, max_seqs=np.minimum(prefill.max_seqs, fitting), kv_tokens=held)

    def _groups(self, ranks: Ints, rows: Ints) -> list[Ints]:
        order = rows[np.argsort(ranks[rows], kind="stable")]
        size = max(1, _MOST_TOGETHER // max(1, len(self._requests.prompts)))
        return [order[start : start + size] for start in range(0, len(order), size)]

    def _grid(self, pool: PoolColumns) -> DecodeGrid:
        most = np.zeros(self._book.size, dtype=np.int64)
        np.maximum.at(most, pool.engines, pool.max_seqs)
        return DecodeGrid(self._book, most)

    def _largest_batches(self, pool: PoolColumns) -> Ints:
        """Say how many sequences a rank may ever decode at a time."""
        typical = max(1, int(np.median(self._requests.prompts)))
        held, sent = 2 * pool.kv_tokens // typical + 1, -(-len(self._requests.prompts) // pool.total_ranks)
        return np.maximum(1, np.minimum(held, sent))

    def _group(self, pool: PoolColumns, prefill: PoolColumns | None) -> EstimateColumns:
        grid, gpus = self._grid(pool), pool.gpus if prefill is None else pool.gpus + prefill.gpus
        if prefill is None:
            orders = [self._dealt(ranks) for ranks in pool.total_ranks.tolist()]
            traffic = self._traffic(orders, self._prompt_work("agg", pool))
        else:
            ready = self._ready_ms(prefill)
            orders = [_dealt_on(*each) for each in zip(ready, pool.total_ranks.tolist(), strict=True)]
            traffic = self._traffic(orders, None)
        return self._summary(serve(traffic, self._settings(pool), grid), pool, orders, gpus)

    # Who reaches which rank, and when --------------------------------------------------------------------

    def _new_dealt(self, ranks: int) -> _Order:
        """Deal all requests out in turn, as they arrive."""
        lanes = self._requests.lanes(ranks)
        rows = np.argsort(lanes, kind="stable")
        return _Order(rows, self._requests.arrivals_ms, np.bincount(lanes, minlength=ranks))

    def _ready_ms(self, prefill: PoolColumns) -> list[Floats]:
        """Tell by candidate when its prefill pool has computed each prompt."""
        first, places = _distinct(prefill, None)
        pool = prefill.take(first)
        orders = [self._dealt(ranks) for ranks in pool.total_ranks.tolist()]
        traffic = self._traffic(orders, self._prompt_work("prefill", pool))
        grid = self._grid(replace(pool, max_seqs=np.ones_like(pool.max_seqs)))  # nobody decodes there
        served = serve(replace(traffic, outputs=np.ones_like(traffic.outputs)), self._settings(pool), grid)
        found = served.first_ms.reshape(len(orders), -1)
        ready = np.empty_like(found)
        for row, order in enumerate(orders):
            ready[row, order.rows] = found[row]
        return list(ready[places])

    def _traffic(self, orders: list[_Order], work: list[tuple[Floats, Ints]] | None) -> Traffic:
        """Line up the requests of all lanes; `work` has the prompts' time and tokens, None if elsewhere."""
        requests, rows = self._requests, [order.rows for order in orders]
        every = np.concatenate(rows)
        prefill_ms, tokens = np.zeros(len(every)), np.zeros(len(every), dtype=np.int64)
        if work is not None:
            prefill_ms = np.concatenate([ms[row] for (ms, _), row in zip(work, rows, strict=True)])
            tokens = np.concatenate([new[row] for (_, new), row in zip(work, rows, strict=True)])
        sizes = np.concatenate([order.sizes for order in orders])
        return Traffic(
            starts=np.concatenate([[0], np.cumsum(sizes)]),
            arrivals_ms=np.concatenate([order.arrivals_ms[order.rows] for order in orders]),
            prompts=requests.prompts[every],
            outputs=requests.outputs[every],
            prefill_ms=prefill_ms,
            tokens=tokens,
        )

    def _settings(self, pool: PoolColumns) -> LaneSettings:
        """Give every rank the settings of its pool."""
        ranks, room = pool.total_ranks, _room(pool)
        reserve = np.where(pool.splits_budget, _SGLANG_RESERVE, 0.0)
        keys = zip(pool.engines.tolist(), room.tolist(), strict=True)
        bend = np.array([self._work(*key).bend for key in keys])
        return LaneSettings(
            engines=np.repeat(pool.engines, ranks),
            room=np.repeat(room, ranks),
            max_seqs=np.repeat(pool.max_seqs, ranks),
            kv_tokens=np.repeat(pool.kv_tokens, ranks).astype(np.float64),
            mixes=np.repeat(~pool.splits_budget, ranks),
            reserve=np.repeat(reserve, ranks),
            bend=np.repeat(bend, ranks),
        )

    # What a prompt takes ----------------------------------------------------------------------------------

    def _prompt_work(self, role: str, pool: PoolColumns) -> list[tuple[Floats, Ints]]:
        """Tell by candidate how long each prompt takes, and how many tokens of it are computed."""
        held = pool.kv_tokens if self._caching[role] else np.zeros_like(pool.kv_tokens)
        keys = zip(pool.engines, _room(pool), pool.total_ranks, held, strict=True)
        return [self._prompts(*map(int, key)) for key in keys]

    def _new_prompts(self, engine: int, room: int, ranks: int, kv_tokens: int) -> tuple[Floats, Ints]:
        prompts, work = self._requests.prompts, self._work(engine, room)
        reused = self._requests.reuse.reused_tokens(ranks, kv_tokens) if kv_tokens else np.zeros_like(prompts)
        return work.prefill_ms(prompts, reused), prompts - reused

    def _new_work(self, engine: int, room: int) -> PromptWork:
        return PromptWork(self._book.engine(engine), room, self._longest)

    # What a candidate did ---------------------------------------------------------------------------------

    def _summary(
        self, served: Served, pool: PoolColumns, orders: list[_Order], gpus: Ints
    ) -> EstimateColumns:
        requests, shape = self._requests, (len(orders), len(self._requests.prompts))
        rows = np.concatenate([order.rows for order in orders]).reshape(shape)
        first, last = served.first_ms.reshape(shape), served.last_ms.reshape(shape)
        ttft, e2e = first - requests.arrivals_ms[rows], last - requests.arrivals_ms[rows]
        outputs = requests.outputs[rows]
        itl = (last - first) / np.maximum(outputs - 1, 1)
        duration_ms = last.max(axis=1)
        lanes = np.repeat(np.arange(len(orders)), pool.total_ranks)
        sums = (served.gaps, served.rates, served.late, served.overfull)
        gaps, rates, late, overfull = (np.bincount(lanes, values, len(orders)) for values in sums)
        good = (outputs * _meets(self._sla, ttft, itl, e2e)).sum(axis=1)
        drains = duration_ms > _DRAIN_SHARE * requests.arrivals_ms[-1] + e2e.mean(axis=1)
        known = duration_ms < NO_DATA_MS
        return EstimateColumns(
            output_tok_s=np.where(known, 1e3, np.nan) * outputs.sum(axis=1) / duration_ms,
            tok_s_user=1e3 * rates / np.maximum(gaps, 1.0),
            ttft_ms=ttft.mean(axis=1),
            e2e_ms=np.where(known, e2e.mean(axis=1), np.nan),
            gpus=gpus,
            doubts=(
                np.where((late > _LATE_SHARE * shape[1]) | (overfull > 0), int(Doubt.KV_PRESSURE), 0)
                + np.where(drains, int(Doubt.OVERLOAD), 0)
                + np.where(pool.ranks > 1, int(Doubt.RANKS_IN_STEP), 0)
            ),
            goodput_tok_s=1e3 * good / duration_ms if self._sla is not None else np.full(len(orders), np.nan),
        )


@dataclass(frozen=True, slots=True)
class _Order:
    """The requests of a candidate lane by lane, when each can be served, and how many a lane has."""

    rows: Ints
    arrivals_ms: Floats
    sizes: Ints


def _dealt_on(ready_ms: Floats, ranks: int) -> _Order:
    """Deal requests out in turn to the ranks that decode, as their prompts get ready."""
    turn = np.argsort(ready_ms, kind="stable")
    lanes = np.arange(len(turn)) % ranks
    rows = turn[np.argsort(lanes, kind="stable")]
    return _Order(rows, ready_ms, np.bincount(lanes, minlength=ranks))


def _distinct(pool: PoolColumns, prefill: PoolColumns | None) -> tuple[Ints, Ints]:
    """Return one row of each kind, and the kind of each row."""
    _, first, places = np.unique(_content(pool, prefill), axis=0, return_index=True, return_inverse=True)
    return first, places.reshape(-1)


def _kinds(pool: PoolColumns, prefill: PoolColumns | None) -> list[bytes]:
    """Name each row by its content."""
    return [row.tobytes() for row in _content(pool, prefill)]


def _content(pool: PoolColumns, prefill: PoolColumns | None) -> Ints:
    """Put the columns of candidates beside each other."""
    parts = [pool] if prefill is None else [pool, prefill]
    return np.column_stack([getattr(part, name) for part in parts for name in part.__slots__])


def _room(pool: PoolColumns) -> Ints:
    """Tokens of prompts that a rank takes into a pass."""
    budget = pool.max_batched_tokens
    return np.maximum(1, np.where(pool.splits_budget, budget // pool.ranks, budget))


def _meets(sla: SLATarget | None, ttft_ms: Floats, itl_ms: Floats, e2e_ms: Floats) -> Floats:
    good = np.ones(ttft_ms.shape)
    if sla is None:
        return good
    for bound, value in ((sla.ttft_ms, ttft_ms), (sla.itl_ms, itl_ms), (sla.e2e_ms, e2e_ms)):
        if bound is not None:
            good *= value <= bound
    return good
