"""Pass times of a compiled engine as a `TimingModel`."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError, TimingError
from aisimulate.core.units import duration_ns, scaled_ns
from aisimulate.timing.aic.engine import EngineSpecBlob, compile_engine_spec, load_engine
from aisimulate.timing.aic.errors import translate
from aisimulate.timing.aic.fused import FusedPrices
from aisimulate.timing.aic.key import EngineKey
from aisimulate.timing.aic.operations import attention_ms, decode_operations, prefill_operations, shared_ms
from aisimulate.timing.aic.rows import Rows, knot_index, ramp_ns, ramp_passes
from aisimulate.timing.ramps import expand_ramps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aiconfigurator_core import AicEngine

    from aisimulate.timing.ramps import Int64s

MAX_BATCH = 1_000_000
MAX_CONTEXT_TOKENS = 1 << 24
MAX_NEXTN = 5
_MAX_PREFILLS = 1 << 18


class AicTiming:
    """Measured pass times. `nextn` draft tokens per step make a decode step verify nextn + 1 tokens.

    `engine`: a compiled engine, or a key that is compiled now. `exact` asks AI Configurator for every
    single decode pass instead of interpolating between contexts; about a hundred times slower.
    Interpolated decode is within 0.03 % on average, 0.6 % at most on most engines and 4 % at the edge of
    the measured grid (GLM-5); prefill is always exact. Picklable; timers are rebuilt in each process.
    Raises `InputError` for a `nextn` outside 0..5 and whatever compiling a key raises.
    """

    __slots__ = ("blob", "exact", "nextn")

    def __init__(self, engine: EngineSpecBlob | EngineKey, nextn: int = 0, exact: bool = False) -> None:
        if not (type(nextn) is int and 0 <= nextn <= MAX_NEXTN):
            raise InputError(f"AIC nextn: {nextn!r} must be an integer from 0 to {MAX_NEXTN}")
        self.blob = compile_engine_spec(engine) if isinstance(engine, EngineKey) else engine
        self.nextn = nextn
        self.exact = exact

    def timer(self, total_kv_tokens: int, prefill_speedup: float, decode_speedup: float) -> AicTimer:
        """Bind to speed-up ratios; the KV capacity plays no part. Equal arguments share one timer."""
        return aic_timer(self.blob, self.nextn, self.exact, prefill_speedup, decode_speedup)


class Prices:
    """Single passes as AI Configurator prices them, in whole ns after speed-up."""

    def __init__(
        self, blob: EngineSpecBlob, nextn: int, prefill_speedup: float, decode_speedup: float
    ) -> None:
        self._blob = blob
        self._verified = nextn + 1
        # Draft layers cost like the model's own; with 0 of them the factor is exactly 1.
        self._depth = (blob.layers + nextn) / blob.layers
        self._prefill_speedup = prefill_speedup
        self._decode_speedup = decode_speedup

    @cached_property
    def _engine(self) -> AicEngine:
        return load_engine(self._blob)

    def prefill_ns(self, batch: int, isl: int, prefix: int) -> int:
        """Duration of a prefill forward."""
        self._check(batch, isl)
        try:
            ms = self._engine.predict_prefill_latency(batch, isl, prefix)
        except Exception as error:
            raise translate(error, f"{self._blob.key}: prefill of {batch} x {isl} tokens") from None
        return self._whole_ns(ms, self._prefill_speedup)

    def decode_ns(self, batch: int, context: int) -> int:
        """Duration of a decode forward at a mean context."""
        self._check(batch, context)
        try:
            ms = self._engine.predict_decode_latency(batch * self._verified, context, 2)
        except Exception as error:
            raise translate(error, f"{self._blob.key}: decode of {batch} at context {context}") from None
        return self._whole_ns(ms * self._depth, self._decode_speedup)

    def verified(self, batch: int) -> int:
        """Tokens that decoding requests bring into a forward: their last one, and their drafts."""
        return batch * self._verified

    def shared_ms(self, tokens: int) -> float:
        """Time of everything but attention in a forward over so many tokens."""
        self._check(1, tokens)
        try:
            return shared_ms(prefill_operations(self._engine, 1, tokens, 0))
        except Exception as error:
            raise translate(error, f"{self._blob.key}: forward of {tokens} tokens") from None

    def prefill_attention_ms(self, batch: int, isl: int, prefix: int) -> float:
        """Time of attention in a prefill forward."""
        self._check(batch, isl)
        try:
            return attention_ms(prefill_operations(self._engine, batch, isl, prefix))
        except Exception as error:
            raise translate(error, f"{self._blob.key}: prefill of {batch} x {isl} tokens") from None

    def prefill_time_ns(self, ms: float) -> int:
        """Round a time that counts as prefill, speed-up applied."""
        return self._whole_ns(ms, self._prefill_speedup)

    def decode_attention_ns(self, batch: int, context: int) -> int:
        """What decoding adds to a forward beyond its tokens: attention, and its passes of draft layers."""
        self._check(batch, context)
        verified = batch * self._verified
        try:
            ms = attention_ms(decode_operations(self._engine, verified, context))
            ms += self._engine.predict_decode_latency(verified, context, 2) * (self._depth - 1.0)
        except Exception as error:
            raise translate(error, f"{self._blob.key}: decode of {batch} at context {context}") from None
        return self._whole_ns(ms, self._decode_speedup)

    def _check(self, batch: int, tokens: int) -> None:
        """AI Configurator extrapolates without limit and without a word, so the limit is ours."""
        if not (0 < batch <= MAX_BATCH and 0 <= tokens <= MAX_CONTEXT_TOKENS):
            raise TimingError(
                f"{self._blob.key}: a batch of {batch} at {tokens} tokens is outside 1..{MAX_BATCH} "
                f"at up to {MAX_CONTEXT_TOKENS} tokens"
            )

    def _whole_ns(self, ms: float, speedup: float) -> int:
        if not math.isfinite(ms):
            raise TimingError(f"{self._blob.key}: AI Configurator predicted {ms!r} ms")
        return scaled_ns(duration_ns(max(ms, 0.0)), speedup)


class AicTimer:
    """A `PassTimer` over lazily filled rows of decode times and a memo of exact prefill times.

    Pass i of a run has the mean context `context_tokens // batch + i`, exactly.
    """

    rises = False  # what was measured need not

    def __init__(
        self, blob: EngineSpecBlob, nextn: int, prefill_speedup: float, decode_speedup: float
    ) -> None:
        self._arguments = (blob, nextn, type(self) is ExactAicTimer, prefill_speedup, decode_speedup)
        self._prices = Prices(blob, nextn, prefill_speedup, decode_speedup)
        self._rows = Rows(self._prices.decode_ns)
        self._prefills: dict[tuple[int, int, int], int] = {}
        self._fused = FusedPrices(self._prices, type(self) is ExactAicTimer)

    def __reduce__(self) -> tuple[object, tuple[EngineSpecBlob, int, bool, float, float]]:
        """Send the compiled engine, not the tables, to another process."""
        return aic_timer, self._arguments

    def prefill_ns(self, batch: int, mean_isl: int, mean_prefix: int) -> int:
        """Duration of a prefill forward; 0 when nothing is left to compute."""
        if batch == 0 or mean_isl <= mean_prefix:
            return 0
        key = (batch, mean_isl, mean_prefix)
        known = self._prefills.get(key)
        if known is None:
            if len(self._prefills) >= _MAX_PREFILLS:
                self._prefills.clear()
            known = self._prefills[key] = self._prices.prefill_ns(batch, mean_isl, mean_prefix)
        return known

    def fused_ns(self, spans: Sequence[tuple[int, int]], batch: int, context_tokens: int) -> int:
        """Duration of one forward over prefill chunks and decoding requests (see `FusedPrices`)."""
        return self._fused.forward_ns(spans, batch, context_tokens)

    def decode_ns(self, batch: int, context_tokens: int) -> int:
        """Duration of one decode forward."""
        context = context_tokens // batch
        shift = context.bit_length() - 4  # knot_index, written out: this is the hot path
        index = (shift << 3) + (context >> shift) if shift > 0 else context
        first, first_ns, slope, _ = self._rows[batch][index]
        return first_ns + slope * (context - first)

    beside_ns = decode_ns

    def run_ns(self, batch: int, context_tokens: int, passes: int) -> int:
        """Exact duration of a run: one closed form per segment it crosses."""
        context = context_tokens // batch
        shift = context.bit_length() - 4  # knot_index, written out: this is the hot path
        index = (shift << 3) + (context >> shift) if shift > 0 else context
        first, first_ns, slope, end = self._rows[batch][index]
        if context + passes <= end:
            return passes * (first_ns + slope * (context - first)) + slope * (passes * (passes - 1) >> 1)
        return sum(ramp_ns(*piece) for piece in self._pieces(batch, context_tokens, passes))

    def run_floor_ns(self, batch: int, context_tokens: int, passes: int) -> int:
        """Duration of a run: the exact one is as cheap as any bound."""
        return self.run_ns(batch, context_tokens, passes)

    def passes_until(self, batch: int, context_tokens: int, passes: int, elapsed_ns: int) -> tuple[int, int]:
        """Smallest k <= passes whose run lasts `elapsed_ns` or more, else `passes`; with its ns."""
        if elapsed_ns <= 0:
            return 0, 0
        done = total = 0
        for first_ns, slope, count in self._pieces(batch, context_tokens, passes):
            whole = ramp_ns(first_ns, slope, count)
            if total + whole >= elapsed_ns:
                needed = ramp_passes(first_ns, slope, elapsed_ns - total)
                return done + needed, total + ramp_ns(first_ns, slope, needed)
            done += count
            total += whole
        return done, total

    def durations_ns(self, batch: int, context_tokens: int, passes: int) -> list[int]:
        """List the duration of each pass of a run."""
        durations: list[int] = []
        for first_ns, slope, count in self._pieces(batch, context_tokens, passes):
            durations += [first_ns + slope * i for i in range(count)]
        return durations

    def forwards_ns(self, batch: int, contexts: list[int]) -> list[int]:
        """List the durations of forwards of one batch."""
        return [self.decode_ns(batch, context) for context in contexts]

    def decodes_ns(self, batches: Int64s, contexts: Int64s) -> Int64s:
        """Durations of many decode forwards, one after the other."""
        import numpy as np  # noqa: PLC0415 - numpy costs start-up time that a small replay need not pay

        return np.array(list(map(self.decode_ns, batches.tolist(), contexts.tolist())), dtype=np.int64)

    def tally_ns(
        self, batches: Int64s, contexts: Int64s, passes: Int64s, weights: Int64s
    ) -> tuple[Int64s, Int64s]:
        """List the durations of the passes of many runs, with their weights."""
        import numpy as np  # noqa: PLC0415 - numpy costs start-up time that a small replay need not pay

        runs = zip(batches.tolist(), contexts.tolist(), passes.tolist(), strict=True)
        pieces = [piece for run in runs for piece in self._pieces(*run)]
        firsts, slopes, counts = np.array(pieces, dtype=np.int64).reshape(-1, 3).T
        return expand_ramps(firsts, slopes, counts), np.repeat(weights, passes)

    def _pieces(self, batch: int, context_tokens: int, passes: int) -> Iterator[tuple[int, int, int]]:
        """Cut a run at the knots: (ns of the first pass, ns per further pass, passes) of each part."""
        context = context_tokens // batch
        stop = context + passes
        row = self._rows[batch]
        while context < stop:
            first, first_ns, slope, end = row[knot_index(context)]
            if end > stop:
                end = stop
            yield first_ns + slope * (context - first), slope, end - context
            context = end


class ExactAicTimer(AicTimer):
    """A `PassTimer` that asks AI Configurator for every distinct (batch, mean context)."""

    def __init__(
        self, blob: EngineSpecBlob, nextn: int, prefill_speedup: float, decode_speedup: float
    ) -> None:
        super().__init__(blob, nextn, prefill_speedup, decode_speedup)
        self._decodes: dict[tuple[int, int], int] = {}

    def decode_ns(self, batch: int, context_tokens: int) -> int:
        """Duration of one decode forward."""
        key = (batch, context_tokens // batch)
        known = self._decodes.get(key)
        if known is None:
            known = self._decodes[key] = self._prices.decode_ns(*key)
        return known

    beside_ns = decode_ns

    def run_ns(self, batch: int, context_tokens: int, passes: int) -> int:
        """Exact duration of a run, pass by pass."""
        return sum(self.decode_ns(batch, context_tokens + i * batch) for i in range(passes))

    def _pieces(self, batch: int, context_tokens: int, passes: int) -> Iterator[tuple[int, int, int]]:
        for i in range(passes):
            yield self.decode_ns(batch, context_tokens + i * batch), 0, 1


@lru_cache(maxsize=16)
def aic_timer(
    blob: EngineSpecBlob, nextn: int, exact: bool, prefill_speedup: float, decode_speedup: float
) -> AicTimer:
    """Give the timer of these parameters; a second replay in the process finds its rows filled."""
    kind = ExactAicTimer if exact else AicTimer
    return kind(blob, nextn, prefill_speedup, decode_speedup)
