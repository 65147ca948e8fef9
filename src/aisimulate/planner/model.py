"""Questions about one engine, answered from estimates of its forward passes (spec 03 sections B5, B6)."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from aisimulate.core.forward_pass import ForwardPass
from aisimulate.planner.settings import AGG, DECODE, PREFILL, EngineLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_DEFAULT_BATCHED_TOKENS = 8192
_DEFAULT_SEQS = 512
_DEFAULT_KV_TOKENS = 2_000_000
_MOST_CANDIDATES = 128
_MOST_HITS = 0.95


class PassEstimator(Protocol):
    """Estimates forward passes; may learn from real ones."""

    @property
    def ready(self) -> bool: ...  # noqa: D102
    def tune(self, ranks: Sequence[ForwardPass]) -> None: ...  # noqa: D102
    def estimate_ms(self, ranks: Sequence[ForwardPass]) -> float | None: ...  # noqa: D102


class Capacity(NamedTuple):
    """Requests per second that one engine sustains, its latencies there, and whether they meet the bounds."""

    rps: float
    ttft_s: float | None
    itl_s: float | None
    eligible: bool


class Shape(NamedTuple):
    """Requests to size for: whole prompt and output tokens, share found in caches, tokens per forward."""

    isl: int
    osl: int
    kv_hit_rate: float | None = None
    accept_length: float = 1.0

    @property
    def computed_isl(self) -> int:
        """Prompt tokens that are not found in a cache."""
        return max(1, math.ceil(self.isl * (1.0 - hit_share(self.kv_hit_rate))))

    @property
    def context(self) -> int:
        """Mean context of a decoding request."""
        return max(1, self.isl + self.osl // 2)


def hit_share(rate: float | None) -> float:
    """Bound a cache hit rate; an unknown one counts as 0."""
    if rate is None or not math.isfinite(rate):
        return 0.0
    return min(_MOST_HITS, max(0.0, rate))


class _MovingMean:
    """Mean of the last values; zeros before the first other value are skipped."""

    def __init__(self, most: int) -> None:
        self._values: deque[float] = deque(maxlen=max(1, most))
        self._sum = 0.0

    def add(self, value: float) -> None:
        if value <= 0 and not self._values:
            return
        if len(self._values) == self._values.maxlen:
            # Added before the oldest is taken away: the order in which the reference rounds.
            self._sum = self._sum + max(0.0, value) - self._values[0]
        else:
            self._sum += max(0.0, value)
        self._values.append(max(0.0, value))

    @property
    def value(self) -> float:
        return self._sum / len(self._values) if self._values else 0.0


class EngineModel:
    """One role's engine: what it learned of its passes, and what it can tell of queues and capacity."""

    def __init__(self, pool: str, estimator: PassEstimator, limits: EngineLimits, samples: int) -> None:
        self._pool = pool
        self._estimator = estimator
        self._batched_tokens = limits.batched_tokens or _DEFAULT_BATCHED_TOKENS
        self._seqs = limits.seqs or _DEFAULT_SEQS
        self._kv_tokens = limits.kv_tokens or _DEFAULT_KV_TOKENS
        self._isl = _MovingMean(samples)
        self._context = _MovingMean(samples)
        self._mix_requests = _MovingMean(samples)
        self._mix_tokens = _MovingMean(samples)

    @property
    def ready(self) -> bool:
        """Whether it knows enough to estimate."""
        return self._estimator.ready

    def observe(self, passes: Iterable[ForwardPass]) -> None:
        """Learn from passes, each of one rank, in the order in which the ranks were first seen."""
        known = list(passes)
        for item in known:
            requests, decoders = item.num_prefill_requests, item.num_decode_requests
            self._isl.add(item.sum_prefill_tokens / requests if requests > 0 else 0.0)
            if decoders > 0:
                self._context.add(item.sum_decode_kv_tokens / decoders)
        # The reference sorts worker ids as text.
        for item in sorted(known, key=lambda item: (str(item.worker_id), item.dp_rank)):
            self._mix_requests.add(float(item.num_prefill_requests))
            self._mix_tokens.add(float(item.sum_prefill_tokens))
            self._estimator.tune([item])

    # Queues -----------------------------------------------------------------------------------------------

    def queue_s(
        self,
        item: ForwardPass,
        kv_hit_rate: float | None,
        *,
        queue_scale: float = 1.0,
        decode_scale: float = 1.0,
        with_queued_decodes: bool = False,
    ) -> float | None:
        """Time until the next request has its prompt computed behind the queue of a rank (s)."""
        tokens, requests = item.sum_queued_prefill_tokens * queue_scale, item.num_queued_prefill * queue_scale
        if self._isl.value > 0:
            tokens += self._isl.value
            requests += 1.0
        tokens *= 1.0 - hit_share(kv_hit_rate)
        context, decoders = _decodes(item, decode_scale, with_queued_decodes)
        waiting = _ceil(requests)
        if self._pool != AGG:
            context = decoders = 0

        def chunk_s(chunk: int) -> float | None:
            return self._estimate_s(
                ForwardPass(
                    num_prefill_requests=max(1, waiting),
                    sum_prefill_tokens=chunk,
                    num_decode_requests=decoders,
                    sum_decode_kv_tokens=context,
                )
            )

        return self._chunked_s(_ceil(tokens), chunk_s)

    def itl_s(
        self,
        item: ForwardPass,
        *,
        decode_scale: float = 1.0,
        with_queued_prefills: bool = False,
    ) -> float | None:
        """Duration of a pass of all that decode on a rank, or will, and one more request (s)."""
        context = float(item.sum_decode_kv_tokens) + item.sum_queued_decode_kv_tokens
        decoders = float(item.num_decode_requests) + item.num_queued_decode
        if with_queued_prefills:
            context += item.sum_queued_prefill_tokens
            decoders += item.num_queued_prefill
        context *= decode_scale
        decoders *= decode_scale
        if self._context.value > 0:
            context += self._context.value
            decoders += 1.0
        # An aggregated engine computes prompts besides, as many as it did on average.
        tokens = _ceil(self._mix_tokens.value) if self._pool == AGG else 0
        requests = max(_ceil(self._mix_requests.value), 1) if tokens else 0
        return self._estimate_s(
            ForwardPass(
                num_prefill_requests=requests,
                sum_prefill_tokens=tokens,
                num_decode_requests=_ceil(decoders),
                sum_decode_kv_tokens=_ceil(context),
            )
        )

    # Capacity ---------------------------------------------------------------------------------------------

    def capacity(self, shape: Shape, ttft_ms: float | None, itl_ms: float | None) -> Capacity | None:
        """Find the most requests per second that one engine sustains within the bounds.

        When no batch size meets them, the most that it sustains at all. None when it cannot tell.
        """
        bounds = tuple(None if bound is None else bound / 1000.0 for bound in (ttft_ms, itl_ms))
        most, price = self._search(shape)
        best: Capacity | None = None
        for batch in batch_sizes(most):
            priced = price(shape, batch)
            if priced is None:
                return None
            rps, ttft_s, itl_s = priced
            if rps <= 0:
                continue
            eligible = all(
                bound is None or (value is not None and value <= bound)
                for bound, value in zip(bounds, (ttft_s, itl_s), strict=True)
            )
            found = Capacity(rps, ttft_s, itl_s, eligible)
            if best is None or (found.eligible, found.rps) > (best.eligible, best.rps):
                best = found
        return best

    def _search(
        self, shape: Shape
    ) -> tuple[int, Callable[[Shape, int], tuple[float, float | None, float | None] | None]]:
        if self._pool == PREFILL:
            isl = shape.computed_isl
            fits = 1 if isl > self._batched_tokens else min(self._seqs, self._batched_tokens // isl)
            return fits, self._price_prefill
        most = min(self._seqs, self._kv_tokens // shape.context)
        if self._pool == DECODE:
            return most, self._price_decode
        return min(most, self._batched_tokens - 1), self._price_mixed

    def _price_prefill(self, shape: Shape, batch: int) -> tuple[float, float | None, float | None] | None:
        time_s = self._chunked_s(shape.computed_isl * batch, self._prompt_s)
        if time_s is None:
            return None
        return (batch / time_s if time_s else 0.0), time_s, None

    def _price_decode(self, shape: Shape, batch: int) -> tuple[float, float | None, float | None] | None:
        time_s = self._mixed_s(0, batch, batch * shape.context)
        if time_s is None:
            return None
        itl_s = time_s / shape.accept_length
        return (batch / (shape.osl * itl_s) if itl_s else 0.0), None, itl_s

    def _price_mixed(self, shape: Shape, batch: int) -> tuple[float, float | None, float | None] | None:
        isl, limit = shape.computed_isl, self._batched_tokens
        prompts = math.ceil(batch * shape.accept_length * isl / max(1, shape.osl))
        if prompts > limit - batch:
            return 0.0, None, None  # more prompts than a pass has room for
        context = batch * shape.context
        time_s = self._mixed_s(prompts, batch, context)
        if time_s is None:
            return None
        itl_s = time_s / shape.accept_length
        if not itl_s:
            return 0.0, None, None
        ttft_s = self._chunked_s(prompts + isl, lambda chunk: self._mixed_s(chunk, batch, context))
        if ttft_s is None:
            return None
        return batch / (shape.osl * itl_s), ttft_s, itl_s

    # Passes -----------------------------------------------------------------------------------------------

    def _prompt_s(self, tokens: int) -> float | None:
        return self._mixed_s(tokens, 0, 0)

    def _mixed_s(self, tokens: int, decoders: int, context: int) -> float | None:
        return self._estimate_s(
            ForwardPass(
                num_prefill_requests=int(tokens > 0),
                sum_prefill_tokens=tokens,
                num_decode_requests=decoders,
                sum_decode_kv_tokens=context,
            )
        )

    def _chunked_s(self, tokens: int, chunk_s: Callable[[int], float | None]) -> float | None:
        """Add up the passes that compute so many prompt tokens."""
        full, tail = divmod(tokens, self._batched_tokens)
        total = 0.0
        if full:
            time_s = chunk_s(self._batched_tokens)
            if time_s is None:
                return None
            total += time_s * full
        if tail:
            time_s = chunk_s(tail)
            if time_s is None:
                return None
            total += time_s
        return total

    def _estimate_s(self, item: ForwardPass) -> float | None:
        ms = self._estimator.estimate_ms([item])
        return None if ms is None else max(0.0, ms) / 1000.0


def _decodes(item: ForwardPass, scale: float, with_queued: bool) -> tuple[int, int]:
    context, decoders = float(item.sum_decode_kv_tokens), float(item.num_decode_requests)
    if with_queued:
        context += item.sum_queued_decode_kv_tokens
        decoders += item.num_queued_decode
    return _ceil(context * scale), _ceil(decoders * scale)


def _ceil(value: float) -> int:
    return math.ceil(value) if value > 0 else 0


def batch_sizes(most: int) -> list[int]:
    """All batch sizes up to `most`, or 128 spread evenly over them."""
    if most <= _MOST_CANDIDATES:
        return list(range(1, most + 1))
    return [1 + number * (most - 1) // (_MOST_CANDIDATES - 1) for number in range(_MOST_CANDIDATES)]
