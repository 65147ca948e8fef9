"""Formulas for a fixed number of equal requests in flight (spec 08 section 2, screen S3c).

Times are in ms, rates in requests per ms. A rank holds a share of the requests in flight; each computes its
prompt, then one token per pass, and every prompt that a pass computes holds up the decodes beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a run loses at its start: the share of the time that all first prompts take (spec 08 section 2).
_RAMP_SHARE, _RAMP_SHARE_PREFILL_BOUND = 0.75, 0.3
# Loss per unit of overcommitment of the KV cache when all requests age in step (spec 08 section 2.2).
_PRESSURE_LOSS = 0.3
_BISECTIONS = 30
# Flags (spec 08 section 2.2): few requests per rank where ranks run in step, prefill near its limit.
_FEW_PER_RANK = 16
_HIGH_PREFILL_DEMAND = 0.6


class StepTimes(Protocol):
    """Durations of single forwards on one rank, in ms."""

    def prefill_ms(self, batch: int, new_tokens: int, prefix_tokens: int) -> float:
        """Time `batch` prompts whose last `new_tokens` are computed."""
        ...

    def decode_ms(self, batch: int, context_tokens: int) -> float:
        """Time one token each for `batch` sequences of a mean context."""
        ...


@dataclass(frozen=True, slots=True)
class ScreenPool:
    """Equal workers of one role: `ranks` attention-DP ranks each, every rank with `kv_tokens` of cache."""

    times: StepTimes
    backend: str
    replicas: int
    ranks: int
    gpus: int
    max_batched_tokens: int
    max_seqs: int
    kv_tokens: int

    @property
    def total_ranks(self) -> int:
        """Ranks of the whole pool."""
        return self.replicas * self.ranks


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """`concurrency` equal requests in flight, `waves` times over."""

    prompt_tokens: int
    output_tokens: int
    concurrency: float
    waves: float

    @property
    def mean_context(self) -> int:
        """Mean length of a decoding sequence."""
        return self.prompt_tokens + self.output_tokens // 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a replay would report, more or less; `doubts` say why it may be less."""

    output_tok_s: float
    tok_s_user: float
    ttft_ms: float
    e2e_ms: float
    gpus: int
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Decoding:
    """How full the ranks of a pool are, and how long a pure decode pass takes."""

    pool: ScreenPool
    load: ClosedLoop
    is_exact: bool = True  # whether the number in flight is fixed, or a mean that comes and goes

    @cached_property
    def per_rank(self) -> float:
        """Requests that decode on a rank at a time."""
        share = self.load.concurrency / self.pool.total_ranks
        return max(1.0, min(share, float(self.slots)))

    @cached_property
    def slots(self) -> int:
        """Most requests that a rank holds at their mean length."""
        return max(1, min(self.pool.max_seqs, self.pool.kv_tokens // self.load.mean_context))

    @cached_property
    def active_ranks(self) -> float:
        """Ranks that have work."""
        return min(float(self.pool.total_ranks), float(self.load.concurrency))

    @cached_property
    def step_ms(self) -> float:
        """A decode pass at the mean context."""
        if self.is_exact:
            return self.pool.times.decode_ms(math.ceil(self.per_rank), self.load.mean_context)
        return _step_between(self.pool, self.load, self.per_rank)

    @cached_property
    def pressure(self) -> float:
        """How much more KV cache the requests of a rank want at full length than there is; 0 if none."""
        most = self.per_rank * (self.load.prompt_tokens + self.load.output_tokens)
        return max(0.0, most / self.pool.kv_tokens - 1.0)


def screen_aggregated(pool: ScreenPool, load: ClosedLoop) -> Estimate:
    """Estimate an aggregated deployment."""
    decoding = _Decoding(pool, load)
    batch, step_ms, gaps = decoding.per_rank, decoding.step_ms, max(load.output_tokens - 1, 1)
    prompts, chunks_ms = _prompt_passes(pool, load, batch)
    prompt_ms = sum(chunks_ms)
    turns = batch / prompts  # prompt passes until every request of the rank has had its own
    if pool.backend == "sglang":  # prompts first, then all decode in step
        cycle_ms = gaps * step_ms + turns * prompt_ms
        user = (1 - 1 / gaps) / step_ms + (1 / gaps) / (step_ms + turns * prompt_ms / 2)
    else:
        cycle_ms = load.output_tokens * step_ms + turns * prompt_ms
        hit = min(1.0, turns * len(chunks_ms) / gaps)
        user = (1 - hit) / step_ms + hit * sum(1 / (step_ms + ms) for ms in chunks_ms) / len(chunks_ms)
    rate = decoding.active_ranks * batch / cycle_ms * _kept(decoding)
    ttft_ms = _aggregated_ttft(decoding, turns, prompt_ms, rate)
    return Estimate(
        output_tok_s=1e3 * rate * load.output_tokens,
        tok_s_user=1e3 * user,
        ttft_ms=ttft_ms,
        e2e_ms=load.concurrency / rate,
        gpus=pool.gpus,
        doubts=tuple(_aggregated_doubts(decoding)),
    )


def screen_disaggregated(prefill: ScreenPool, decode: ScreenPool, load: ClosedLoop) -> Estimate:
    """Estimate a prefill and a decode pool: requests divide between them so that both go at the same rate."""
    # Requests computed together decode and come back together: batches stay as large as at first.
    share = min(float(prefill.max_seqs), load.concurrency / prefill.total_ranks)
    prompts, chunks_ms = _prompt_passes(prefill, load, max(1.0, share), decodes=0.0)
    batch_ms = sum(chunks_ms)
    single_ms = sum(_prompt_passes(prefill, load, 1.0, decodes=0.0)[1])
    prefill_rate = prefill.total_ranks * prompts / batch_ms
    decoding_requests, rate = _balance(decode, load, prefill_rate, batch_ms)
    decoding = _Decoding(decode, replace(load, concurrency=max(1.0, decoding_requests)), is_exact=False)
    bound = rate >= prefill_rate * (1 - 1e-6)
    share = _RAMP_SHARE_PREFILL_BOUND if bound else _RAMP_SHARE
    ramp_ms = share * max(0.0, load.concurrency / prefill_rate - single_ms)
    steady_ms = load.waves * load.concurrency / rate
    rate *= steady_ms / (steady_ms + ramp_ms) * _kept(decoding)
    step_ms = decoding.step_ms
    e2e_ms = load.concurrency / rate
    return Estimate(
        output_tok_s=1e3 * rate * load.output_tokens,
        tok_s_user=1e3 / step_ms,
        ttft_ms=max(single_ms + step_ms, e2e_ms - (load.output_tokens - 1) * step_ms),
        e2e_ms=e2e_ms,
        gpus=prefill.gpus + decode.gpus,
        doubts=tuple(_pair_doubts(decoding, prefill, rate / prefill_rate)),
    )


def _step_between(pool: ScreenPool, load: ClosedLoop, batch: float) -> float:
    """A decode pass of a batch that is not whole on average."""
    low = max(1, math.floor(batch))
    low_ms = pool.times.decode_ms(low, load.mean_context)
    if batch <= low:
        return low_ms
    return low_ms + (batch - low) * (pool.times.decode_ms(low + 1, load.mean_context) - low_ms)


def _prompt_passes(
    pool: ScreenPool, load: ClosedLoop, batch: float, decodes: float | None = None
) -> tuple[int, list[float]]:
    """Return how many prompts a rank computes at a time, and the durations of the passes that takes."""
    room = _prompt_room(pool, batch if decodes is None else decodes)
    together = min(room, pool.kv_tokens) // load.prompt_tokens
    together = min(together, math.ceil(batch))
    if together >= 1:
        return together, [pool.times.prefill_ms(together, load.prompt_tokens, 0)]
    return 1, [pool.times.prefill_ms(1, new, done) for new, done in _chunks(load.prompt_tokens, room)]


def _prompt_room(pool: ScreenPool, decodes: float) -> int:
    """Tokens of prompts that fit a pass. SGLang divides its budget among the ranks of a worker."""
    if pool.backend == "sglang":
        return max(1, pool.max_batched_tokens // pool.ranks)
    return max(1, pool.max_batched_tokens - math.ceil(decodes))


def _chunks(prompt_tokens: int, room: int) -> Iterator[tuple[int, int]]:
    for done in range(0, prompt_tokens, room):
        yield min(room, prompt_tokens - done), done


def _kept(decoding: _Decoding) -> float:
    """Share of the throughput that is left when requests are preempted or held back for want of KV cache."""
    return max(0.1, 1.0 - _PRESSURE_LOSS * decoding.pressure)


def _aggregated_ttft(decoding: _Decoding, turns: float, prompt_ms: float, rate: float) -> float:
    """Mean over a first wave that arrives at once, later waves, and the wait for a free slot."""
    pool, load, step_ms = decoding.pool, decoding.load, decoding.step_ms
    first_ms = (turns + 1) / 2 * (prompt_ms + step_ms / 2)
    if pool.backend == "sglang" and pool.total_ranks > 1:
        later_ms = sum(_prompt_passes(pool, load, 1.0)[1]) + step_ms / 2
    else:
        later_ms = prompt_ms + step_ms
    waiting = max(0.0, load.concurrency - decoding.active_ranks * decoding.per_rank)
    return first_ms / load.waves + later_ms * (1 - 1 / load.waves) + waiting / rate


def _balance(
    decode: ScreenPool, load: ClosedLoop, prefill_rate: float, batch_ms: float
) -> tuple[float, float]:
    """Find the requests that decode, and the rate: those that do not decode are in prefill."""
    slots = _Decoding(decode, load).slots * decode.total_ranks

    def rate_of(requests: float) -> float:
        held = min(requests, slots)
        return held / (load.output_tokens * _step_between(decode, load, held / decode.total_ranks))

    low, high = 0.0, float(load.concurrency)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        rate = rate_of(middle)
        if rate > prefill_rate or middle + rate * batch_ms > load.concurrency:
            high = middle
        else:
            low = middle
    return low, min(rate_of(low), prefill_rate)


def _aggregated_doubts(decoding: _Decoding) -> Iterator[str]:
    pool, load = decoding.pool, decoding.load
    if decoding.pressure > 0:
        yield "KV cache under pressure"
    if pool.backend == "sglang" and pool.total_ranks > 1 and decoding.per_rank < _FEW_PER_RANK:
        yield "few requests per rank"
    if load.prompt_tokens > _prompt_room(pool, decoding.per_rank):
        yield "prompts longer than a pass"


def _pair_doubts(decoding: _Decoding, prefill: ScreenPool, demand: float) -> Iterator[str]:
    if decoding.pressure > 0:
        yield "KV cache under pressure"
    if decoding.load.prompt_tokens > _prompt_room(prefill, 0.0):
        yield "prompts longer than a pass"
    if demand > _HIGH_PREFILL_DEMAND:
        yield "prefill near its limit"
