"""Formulas for a fixed number of equal requests in flight (spec 08 section 2, screen S3c).

Times are in ms, rates in requests per ms; every array has one row per candidate. A rank holds a share of the
requests in flight; each computes its prompt, then one token per pass, and every prompt that a pass computes
holds up the decodes beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.spica.screen.columns import Doubt, EstimateColumns, PoolColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aisimulate.spica.screen.step_book import StepBook

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

# What a run loses at its start: the share of the time that all first prompts take (spec 08 section 2).
_RAMP_SHARE, _RAMP_SHARE_PREFILL_BOUND = 0.75, 0.3
# Loss per unit of overcommitment of the KV cache when all requests age in step (spec 08 section 2.2).
_PRESSURE_LOSS, _LEAST_KEPT = 0.3, 0.1
_BISECTIONS = 30
# Flags (spec 08 section 2.2): few requests per rank where ranks run in step, prefill near its limit.
_FEW_PER_RANK = 16
_HIGH_PREFILL_DEMAND = 0.6
_MOST_CHUNKS = 256  # a prompt in more passes than that is no case for formulas


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """`concurrency` (one number per row) equal requests in flight, `waves` times over."""

    prompt_tokens: int
    output_tokens: int
    concurrency: Floats
    waves: float

    @property
    def mean_context(self) -> int:
        """Mean length of a decoding sequence."""
        return self.prompt_tokens + self.output_tokens // 2


@dataclass(frozen=True, slots=True)
class _Filling:
    """How full the ranks of a pool are. `pressure`: how much more cache is wanted than there is."""

    per_rank: Floats
    slots: Ints
    active_ranks: Floats
    pressure: Floats

    @property
    def kept(self) -> Floats:
        """Share of the throughput that is left when requests are preempted or held back for want of cache."""
        kept: Floats = np.maximum(_LEAST_KEPT, 1.0 - _PRESSURE_LOSS * self.pressure)
        return kept


@dataclass(frozen=True, slots=True)
class _PromptPasses:
    """How a rank computes prompts: `together` at a time, which takes `chunks` passes and `total_ms`.

    `mean_rate` is the mean over the chunks of 1 / (chunk + a decode pass), in tokens per ms.
    """

    together: Ints
    chunks: Ints
    total_ms: Floats
    mean_rate: Floats


def screen_aggregated(pool: PoolColumns, load: ClosedLoop, book: StepBook) -> EstimateColumns:
    """Estimate aggregated deployments."""
    filling = _filling(pool, load, load.concurrency)
    batch, gaps, outputs = filling.per_rank, max(load.output_tokens - 1, 1), load.output_tokens
    step_ms = book.decode_ms(pool.engines, np.ceil(batch).astype(np.int64), load.mean_context)
    room = _prompt_room(pool, batch)
    passes = _prompt_passes(pool, load, batch, room, step_ms, book)
    turns = batch / passes.together  # prompt passes until every request of the rank has had its own
    in_step = pool.splits_budget  # prompts first, then all decode in step
    cycle_ms = np.where(in_step, gaps, outputs) * step_ms + turns * passes.total_ms
    hit = np.minimum(1.0, turns * passes.chunks / gaps)
    beside = (1 - hit) / step_ms + hit * passes.mean_rate
    first = (1 - 1 / gaps) / step_ms + (1 / gaps) / (step_ms + turns * passes.total_ms / 2)
    rate = filling.active_ranks * batch / cycle_ms * filling.kept
    return EstimateColumns(
        output_tok_s=1e3 * rate * outputs,
        tok_s_user=1e3 * np.where(in_step, first, beside),
        ttft_ms=_aggregated_ttft(pool, load, filling, passes, step_ms, rate, book),
        e2e_ms=load.concurrency / rate,
        gpus=pool.gpus,
        doubts=_doubts(
            (Doubt.KV_PRESSURE, filling.pressure > 0),
            (Doubt.FEW_PER_RANK, in_step & (pool.total_ranks > 1) & (batch < _FEW_PER_RANK)),
            (Doubt.LONG_PROMPTS, load.prompt_tokens > room),
        ),
        goodput_tok_s=np.full(len(rate), np.nan),
    )


def screen_disaggregated(
    prefill: PoolColumns, decode: PoolColumns, load: ClosedLoop, book: StepBook
) -> EstimateColumns:
    """Estimate pairs of a prefill and a decode pool: both go at the same rate.

    Requests computed together decode and come back together: batches stay as large as at first.
    """
    share = np.maximum(1.0, np.minimum(prefill.max_seqs, load.concurrency / prefill.total_ranks))
    room, still = _prompt_room(prefill, np.zeros(1)), np.ones(len(share))
    passes = _prompt_passes(prefill, load, share, room, still, book)
    single_ms = _prompt_passes(prefill, load, still, room, still, book).total_ms
    limit = prefill.total_ranks * passes.together / passes.total_ms
    decoding, rate = _balance(decode, load, limit, passes.total_ms, book)
    filling = _filling(decode, load, np.maximum(1.0, decoding))
    step_ms = book.decode_between_ms(decode.engines, filling.per_rank, load.mean_context)
    ramp = np.where(rate >= limit * (1 - 1e-6), _RAMP_SHARE_PREFILL_BOUND, _RAMP_SHARE)
    ramp_ms = ramp * np.maximum(0.0, load.concurrency / limit - single_ms)
    steady_ms = load.waves * load.concurrency / rate
    rate = rate * steady_ms / (steady_ms + ramp_ms) * filling.kept
    e2e_ms = load.concurrency / rate
    return EstimateColumns(
        output_tok_s=1e3 * rate * load.output_tokens,
        tok_s_user=1e3 / step_ms,
        ttft_ms=np.maximum(single_ms + step_ms, e2e_ms - (load.output_tokens - 1) * step_ms),
        e2e_ms=e2e_ms,
        gpus=prefill.gpus + decode.gpus,
        doubts=_doubts(
            (Doubt.KV_PRESSURE, filling.pressure > 0),
            (Doubt.LONG_PROMPTS, load.prompt_tokens > room),
            (Doubt.PREFILL_LIMIT, rate / limit > _HIGH_PREFILL_DEMAND),
        ),
        goodput_tok_s=np.full(len(rate), np.nan),
    )


def _filling(pool: PoolColumns, load: ClosedLoop, concurrency: Floats) -> _Filling:
    slots = np.maximum(1, np.minimum(pool.max_seqs, pool.kv_tokens // load.mean_context))
    ranks = pool.total_ranks
    per_rank = np.maximum(1.0, np.minimum(concurrency / ranks, slots))
    wanted = per_rank * (load.prompt_tokens + load.output_tokens)
    pressure = np.maximum(0.0, wanted / np.maximum(pool.kv_tokens, 1) - 1.0)
    return _Filling(per_rank, slots, np.minimum(ranks, concurrency), pressure)


def _prompt_room(pool: PoolColumns, decodes: Floats) -> Ints:
    """Tokens of prompts that fit a pass. SGLang divides its budget among the ranks of a worker."""
    beside = pool.max_batched_tokens - np.ceil(decodes).astype(np.int64)
    return np.maximum(1, np.where(pool.splits_budget, pool.max_batched_tokens // pool.ranks, beside))


def _prompt_passes(
    pool: PoolColumns, load: ClosedLoop, batch: Floats, room: Ints, step_ms: Floats, book: StepBook
) -> _PromptPasses:
    together = np.minimum(room, pool.kv_tokens) // load.prompt_tokens
    together = np.minimum(together, np.ceil(batch).astype(np.int64))
    chunks = np.ones_like(together)
    total_ms = book.prompts_ms(pool.engines, np.maximum(together, 1), load.prompt_tokens)
    mean_rate = 1.0 / (step_ms + total_ms)
    cut = np.flatnonzero(together < 1)
    if len(cut):
        least = -(-load.prompt_tokens // _MOST_CHUNKS)
        sums = _chunked(
            pool.engines[cut], np.maximum(room[cut], least), load.prompt_tokens, step_ms[cut], book
        )
        chunks[cut], total_ms[cut], mean_rate[cut] = sums
    return _PromptPasses(np.maximum(together, 1), chunks, total_ms, mean_rate)


def _chunked(
    engines: Ints, room: Ints, prompt_tokens: int, step_ms: Floats, book: StepBook
) -> tuple[Ints, Floats, Floats]:
    """Compute prompts in parts of `room` tokens: the number of parts, their time, the mean rate beside."""
    chunks = -(-prompt_tokens // room)
    total_ms, rates = np.zeros(len(room)), np.zeros(len(room))
    for number in range(int(chunks.max())):
        rows = np.flatnonzero(chunks > number)
        done = number * room[rows]
        ms = book.chunks_ms(engines[rows], np.minimum(room[rows], prompt_tokens - done), done)
        total_ms[rows] += ms
        rates[rows] += 1.0 / (step_ms[rows] + ms)
    return chunks, total_ms, rates / chunks


def _aggregated_ttft(
    pool: PoolColumns,
    load: ClosedLoop,
    filling: _Filling,
    passes: _PromptPasses,
    step_ms: Floats,
    rate: Floats,
    book: StepBook,
) -> Floats:
    """Mean over a first wave that arrives at once, later waves, and the wait for a free slot."""
    turns = filling.per_rank / passes.together
    first_ms = (turns + 1) / 2 * (passes.total_ms + step_ms / 2)
    alone = np.ones(len(step_ms))
    single_ms = _prompt_passes(pool, load, alone, _prompt_room(pool, alone), step_ms, book).total_ms
    comes_alone = pool.splits_budget & (pool.total_ranks > 1)
    later_ms = np.where(comes_alone, single_ms + step_ms / 2, passes.total_ms + step_ms)
    waiting = np.maximum(0.0, load.concurrency - filling.active_ranks * filling.per_rank)
    return first_ms / load.waves + later_ms * (1 - 1 / load.waves) + waiting / rate


def _balance(
    decode: PoolColumns, load: ClosedLoop, limit: Floats, batch_ms: Floats, book: StepBook
) -> tuple[Floats, Floats]:
    """Find the requests that decode, and the rate: those that do not decode are in prefill."""
    ranks = decode.total_ranks
    slots = _filling(decode, load, load.concurrency).slots * ranks

    def rate_of(requests: Floats) -> Floats:
        held = np.minimum(requests, slots)
        step_ms = book.decode_between_ms(decode.engines, held / ranks, load.mean_context)
        rate: Floats = held / (load.output_tokens * step_ms)
        return rate

    low, high = np.zeros(len(limit)), load.concurrency.astype(np.float64)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        rate = rate_of(middle)
        too_many = (rate > limit) | (middle + rate * batch_ms > load.concurrency)
        low, high = np.where(too_many, low, middle), np.where(too_many, middle, high)
    return low, np.minimum(rate_of(low), limit)


def _doubts(*found: tuple[Doubt, Bools]) -> Ints:
    total = np.zeros(len(found[0][1]), dtype=np.int64)
    for doubt, applies in found:
        total += np.where(applies, int(doubt), 0)
    return total
