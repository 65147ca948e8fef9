"""A forward over prefill chunks and decoding requests together (spec 01 section (a) 1 and 2).

Its time has three parts: what all its tokens share (everything but attention, at their number), the
attention of the prefill chunks, and the attention of the decoding requests. AI Configurator's own mixed
step is put together in the same way, but takes one length for all requests, and for models whose attention
was measured as a block together with its projections it leaves the decoding attention out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.timing.aic.rows import Rows, knot_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.timing.aic.surface import Prices

_MAX_CHUNKS = 1 << 18


class FusedPrices:
    """Durations of forwards in whole ns after speed-up; `exact` interpolates nothing."""

    def __init__(self, prices: Prices, exact: bool) -> None:
        self._prices = prices
        self._exact = exact
        self._shared_ms: dict[int, float] = {}
        self._chunks_ms: dict[tuple[int, int, int], float] = {}
        self._rows = Rows(prices.decode_attention_ns)

    def forward_ns(self, spans: Sequence[tuple[int, int]], batch: int, context_tokens: int) -> int:
        """Time a forward over `spans` (first and past-the-last token of each chunk) and `batch` decoders.

        `context_tokens`: sum of the decoders' lengths. A forward over one chunk alone lasts what
        `PassTimer.prefill_ns` says. Raises `TimingError`.
        """
        tokens, count, chunks_ms = self._prices.verified(batch), len(spans), 0.0
        for start, end in spans:
            tokens += end - start
            chunks_ms += self._chunk_ms(count, end, start)
        decode_ns = self._decode_ns(batch, context_tokens) if batch else 0
        # A chunk costs its share of a batch of its like, so equal chunks cost what their batch does.
        return self._prices.prefill_time_ns(self._tokens_ms(tokens) + chunks_ms / (count or 1)) + decode_ns

    def _tokens_ms(self, tokens: int) -> float:
        known = self._shared_ms.get(tokens)
        if known is None:
            known = self._shared_ms[tokens] = self._prices.shared_ms(tokens)
        return known

    def _chunk_ms(self, batch: int, isl: int, prefix: int) -> float:
        key = (batch, isl, prefix)
        known = self._chunks_ms.get(key)
        if known is None:
            if len(self._chunks_ms) >= _MAX_CHUNKS:
                self._chunks_ms.clear()
            known = self._chunks_ms[key] = self._prices.prefill_attention_ms(batch, isl, prefix)
        return known

    def _decode_ns(self, batch: int, context_tokens: int) -> int:
        context = context_tokens // batch
        if self._exact:
            return self._prices.decode_attention_ns(batch, context)
        first, first_ns, slope, _ = self._rows[batch][knot_index(context)]
        return first_ns + slope * (context - first)
