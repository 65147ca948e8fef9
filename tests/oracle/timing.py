"""Pass durations in whole ns, straight from the formulas (spec 01 section 2, spec 07 section 4.2)."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

from aisimulate.core.units import duration_ns, scaled_ns


class Timing:
    """Pass times of one rank with `total_kv_tokens` of KV capacity: fixed, polynomial or linear.

    A factor is the inverse of a speed-up ratio; decoding beside a prefill goes by the factor of prefills.
    """

    def __init__(self, rank: dict[str, Any], total_kv_tokens: int) -> None:
        self.model = rank.get("timing_model", {"type": "polynomial"})
        self.total_kv_tokens = total_kv_tokens
        self.half = rank.get("timing_mode") == "half"
        speedup = rank.get("speedup_ratio", 1.0)
        both = speedup * rank.get("decode_speedup_ratio", 1.0)
        self.prefill_speedup = (speedup or 1.0) / rank.get("prefill_scale", 1.0)
        self.decode_speedup = (both or 1.0) / rank.get("decode_scale", 1.0)
        self.beside_speedup = (both or 1.0) / rank.get("prefill_scale", 1.0)

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
        if self.model["type"] == "linear":
            return self._linear_ns(constant=self.decode_speedup, decodes=lengths, ratio=self.decode_speedup)
        return self._tabled_decode_ns(lengths, self.decode_speedup)

    def beside_ns(self, lengths: list[int]) -> int:
        """What the decoders add to a prefill forward."""
        if not lengths:
            return 0
        if self.model["type"] == "linear":
            return self._linear_ns(decodes=lengths, ratio=self.beside_speedup, mixed=True)
        return self._tabled_decode_ns(lengths, self.beside_speedup)

    def fused_ns(self, spans: list[tuple[int, int]], lengths: list[int]) -> int:
        """One forward over chunks of requests and the next token of sequences of these lengths."""
        if self.half:
            return (
                self.prefill_ns(spans) + self.beside_ns(lengths) + self._one_forward_ns(spans, lengths)
            ) // 2
        return self._one_forward_ns(spans, lengths)

    def _one_forward_ns(self, spans: list[tuple[int, int]], lengths: list[int]) -> int:
        tokens = sum(end - start for start, end in spans)
        if self.model["type"] == "linear":
            return self._linear_ns(
                constant=self.prefill_speedup,
                tokens=tokens,
                decodes=lengths,
                ratio=self.beside_speedup,
                mixed=True,
            )
        prefill_ns = self._scaled_prefill_ns(tokens + len(lengths))
        if self.model["type"] == "fixed":
            return max(prefill_ns, self.beside_ns(lengths))
        # Only what grows with the pool in use is the decoders' own.
        return prefill_ns + self.beside_ns(lengths) - (self.beside_ns([0]) if lengths else 0)

    def _scaled_prefill_ns(self, tokens: int) -> int:
        if self.model["type"] == "linear":
            return self._linear_ns(constant=self.prefill_speedup, tokens=tokens)
        return scaled_ns(duration_ns(self._prefill_ms(tokens)), self.prefill_speedup)

    def _tabled_decode_ns(self, lengths: list[int], speedup: float) -> int:
        return scaled_ns(duration_ns(self._decode_ms(sum(lengths))), speedup)

    def _linear_ns(
        self,
        constant: float | None = None,
        tokens: int = 0,
        decodes: list[int] | tuple[int, ...] = (),
        ratio: float = 1.0,
        mixed: bool = False,
    ) -> int:
        """Add up coefficients in whole femtoseconds and round once, half up."""
        fs = 0 if constant is None else self._coefficient("constant_ms", constant)
        fs += tokens * self._coefficient("prefill_token_ms", self.prefill_speedup)
        fs += len(decodes) * self._coefficient("decode_ms", ratio)
        fs += sum(decodes) * self._coefficient("context_token_ms", ratio)
        if mixed:
            fs += len(decodes) * self._coefficient("mixed_decode_ms", ratio)
        return floor(Fraction(fs, 10**6) + Fraction(1, 2))

    def _coefficient(self, name: str, ratio: float) -> int:
        return round(self.model.get(name, 0.0) * 10**12 / ratio)

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
