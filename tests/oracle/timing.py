"""Pass durations in whole ns, straight from the formulas (spec 01 section 2)."""

from __future__ import annotations

from typing import Any

from aisimulate.core.units import duration_ns, scaled_ns


class Timing:
    """Fixed or polynomial timing of one rank with `total_kv_tokens` of KV capacity."""

    def __init__(self, rank: dict[str, Any], total_kv_tokens: int) -> None:
        self.model = rank.get("timing_model", {"type": "polynomial"})
        self.total_kv_tokens = total_kv_tokens
        self.prefill_speedup = rank.get("speedup_ratio", 1.0)
        self.decode_speedup = self.prefill_speedup * rank.get("decode_speedup_ratio", 1.0)

    def prefill_ns(self, spans: list[tuple[int, int]]) -> int:
        """One forward over prompt spans, each (tokens known before, tokens known after) the pass."""
        if not spans:
            return 0
        mean_isl = sum(end for _, end in spans) // len(spans)
        mean_prefix = sum(start for start, _ in spans) // len(spans)
        if mean_isl <= mean_prefix:
            return 0
        return self._scaled_prefill_ns(len(spans) * (mean_isl - mean_prefix))

    def decode_ns(self, lengths: list[int]) -> int:
        """One decode forward over sequences of these lengths (the dangling last token included)."""
        if not lengths:
            return 0
        return scaled_ns(duration_ns(self._decode_ms(sum(lengths))), self.decode_speedup)

    def fused_ns(self, spans: list[tuple[int, int]], lengths: list[int]) -> int:
        """One forward over chunks of requests and the next token of sequences of these lengths."""
        tokens = sum(end - start for start, end in spans)
        prefill_ns = self._scaled_prefill_ns(tokens + len(lengths))
        if self.model["type"] == "fixed":
            return max(prefill_ns, self.decode_ns(lengths))
        # Only what grows with the pool in use is the decoders' own.
        return prefill_ns + self.decode_ns(lengths) - (self.decode_ns([0]) if lengths else 0)

    def _scaled_prefill_ns(self, tokens: int) -> int:
        return scaled_ns(duration_ns(self._prefill_ms(tokens)), self.prefill_speedup)

    def _prefill_ms(self, tokens: int) -> float:
        if self.model["type"] == "fixed":
            return float(self.model["prefill_ms"])
        x = float(tokens)
        return 4.209989e-7 * (x * x) + 1.518344e-2 * x + 16.50142

    def _decode_ms(self, context_tokens: int) -> float:
        if self.model["type"] == "fixed":
            return float(self.model["decode_ms"])
        u = min(1.0, context_tokens / self.total_kv_tokens)
        return max(1.0, -25.74 * (u * u) + 54.01 * u + 5.74)
