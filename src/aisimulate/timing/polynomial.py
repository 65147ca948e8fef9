"""The reference polynomial: decode time depends only on the share of the KV pool in use (spec 01 2.1).

A rank meets the same integer token counts again and again, so whole-ns durations are tabulated once per
(pool size, speed-up). A run of k passes is the difference of two running sums where the batch is small, so
that runs are long, and else one C-speed sum over a strided slice of the table.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import TimingError
from aisimulate.core.units import NS_PER_S, duration_ns, scaled_ns
from aisimulate.timing.ramps import tally_ramps

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from aisimulate.timing.ramps import Int64s

# Small enough for the temporaries of a fill to stay in cache.
_CHUNK_TOKENS = 1 << 13
_WIDE_BATCH = 64
_FEW_PASSES = 8
# What it costs to price a context by itself, and to price several at once, in entries of the table.
_ONE_ENTRIES, _CALL_ENTRIES = 64, 2048
_MOST_ENTRIES = 1 << 20  # of a table that is filled to save these costs
_PASS_ENTRIES = 8  # of running sums, that a pass added up without them counts for; it costs about two
_SUMMED_BATCHES = 3  # batches up to here get running sums
_MOST_PREFILLS = 1 << 16
_FEW_PREFILLS = 256  # from here on they are worth a table
# A float holds every whole number up to here, so sums of float durations below it are exact.
_EXACT_FLOAT = 1 << 53
# Distance from a whole number beyond which a float product cannot tell which side of the tie it is on.
_NEAR_TIE = 0.4999

_A, _B, _C = 4.209989e-7, 1.518344e-2, 16.50142  # of the prefill polynomial, in ms


def prefill_ms(tokens: int) -> float:
    """Time of a prefill forward over `tokens` new tokens; the order of operations is part of the rule."""
    x = float(tokens)
    return _A * (x * x) + _B * x + _C


def decode_ms(context_tokens: int, total_kv_tokens: int) -> float:
    """Time of a decode forward when `context_tokens` of the pool's `total_kv_tokens` are in use."""
    u = min(1.0, context_tokens / total_kv_tokens) if total_kv_tokens else 1.0
    return max(1.0, -25.74 * (u * u) + 54.01 * u + 5.74)


class _Prefills(dict[int, int]):
    """Prefill durations by new tokens, each worked out once: chunks fill the same budget again and again."""

    __slots__ = ("speedup",)

    def __init__(self, speedup: float) -> None:
        super().__init__()
        self.speedup = speedup

    def __missing__(self, tokens: int) -> int:
        if len(self) >= _MOST_PREFILLS:
            self.clear()
        elif len(self) == _FEW_PREFILLS and max(self) < _MOST_PREFILLS:
            self._tabulate(max(tokens, *self) + 1)
        ns = self[tokens] = self._evaluate(tokens)
        return ns

    def _evaluate(self, tokens: int) -> int:
        return scaled_ns(duration_ns(prefill_ms(tokens)), self.speedup)

    def _tabulate(self, stop: int) -> None:
        """Work out all prefills of less than `stop` tokens together; near-ties are settled one by one."""
        import numpy as np  # noqa: PLC0415 - numpy costs start-up time that a small replay need not pay

        if self.speedup not in (0.0, 1.0):
            return
        x = np.arange(stop, dtype=np.float64)
        durations, unsure = _rounded((_A * (x * x) + _B * x + _C) * 1e6)
        self.update(enumerate(durations.astype(np.int64).tolist()))
        for tokens in np.flatnonzero(unsure).tolist():
            self[tokens] = self._evaluate(tokens)


class PolynomialTimer:
    """A `PassTimer` over a lazily grown table of decode durations indexed by context tokens.

    The table never exceeds the pool's token count; from there on the duration is constant.
    Durations never decrease with context: the real polynomial rises by at least 2.53 ms over the pool,
    which exceeds float error per token for any pool below 10^14 tokens, and rounding is monotone.
    """

    __slots__ = (
        "_added",
        "_decode_speedup",
        "_full_ns",
        "_prefills",
        "_spent",
        "_summed_batches",
        "_sums",
        "_table",
        "_total_tokens",
    )

    rises = True  # the batch plays no part

    def __init__(self, total_kv_tokens: int, prefill_speedup: float, decode_speedup: float) -> None:
        self._total_tokens = total_kv_tokens
        self._prefills = _Prefills(prefill_speedup)
        self._decode_speedup = decode_speedup
        self._full_ns = self._evaluate(total_kv_tokens)
        if self._full_ns >= 1 << 62:
            raise TimingError(f"decode_speedup_ratio {decode_speedup!r} makes a pass too long to represent")
        sums_fit = self._full_ns * max(total_kv_tokens, 1) < _EXACT_FLOAT
        self._table: array[Any] = array("d") if sums_fit else array("q")
        self._summed_batches = _SUMMED_BATCHES if sums_fit else 0
        # By batch n: entry i is the sum of the table's entries i - n, i - 2 n and so on.
        self._sums = [array("d", bytes(8 * batch)) for batch in range(self._summed_batches + 1)]
        self._spent = 0  # on contexts that are not in the table, since it last grew
        self._added = [0] * len(self._sums)  # passes added up one by one since the sums last grew

    def __reduce__(self) -> tuple[object, tuple[int, float, float]]:
        """Send the parameters, not the table, to another process."""
        return polynomial_timer, (self._total_tokens, self._prefills.speedup, self._decode_speedup)

    def prefill_ns(self, batch: int, mean_isl: int, mean_prefix: int) -> int:
        """Duration of a prefill forward; 0 when nothing is left to compute."""
        tokens = batch * (mean_isl - mean_prefix)
        return self._prefills[tokens] if tokens > 0 else 0

    def decode_ns(self, batch: int, context_tokens: int) -> int:
        """Duration of one decode forward."""
        table = self._table
        if context_tokens < len(table):
            return int(table[context_tokens])
        if context_tokens >= self._total_tokens:
            return self._full_ns
        self._spend(_ONE_ENTRIES, context_tokens)
        return self._evaluate(context_tokens)

    beside_ns = decode_ns

    def fused_ns(self, spans: Sequence[tuple[int, int]], batch: int, context_tokens: int) -> int:
        """Duration of one forward over chunks and decoders (spec 01 section (a) 1).

        The prefill polynomial at the number of all tokens, and the part of the decode time that grows with
        the KV pool in use, which stands for the decoders' attention.
        """
        tokens = sum(end - start for start, end in spans)
        if not batch:
            return self._prefills[tokens]
        return self._prefills[tokens + batch] + self.decode_ns(batch, context_tokens) - self.decode_ns(1, 0)

    def run_ns(self, batch: int, context_tokens: int, passes: int) -> int:
        """Exact duration of a run."""
        stop = context_tokens + passes * batch
        if stop - batch < len(self._table):
            if batch > self._summed_batches:
                return int(sum(self._table[context_tokens:stop:batch]))
            return int(self._summed_ns(batch, context_tokens, stop))
        rising = self._rising(batch, context_tokens, passes)
        return int(sum(self._passes(context_tokens, batch, rising))) + (passes - rising) * self._full_ns

    def run_floor_ns(self, batch: int, context_tokens: int, passes: int) -> int:
        """Lower bound of `run_ns`: every pass at least as long as the first."""
        table = self._table
        if context_tokens < len(table):
            return passes * int(table[context_tokens])
        return passes * self.decode_ns(batch, context_tokens)

    def passes_until(self, batch: int, context_tokens: int, passes: int, elapsed_ns: int) -> tuple[int, int]:
        """Smallest k <= passes whose run lasts `elapsed_ns` or more, else `passes`; with its ns.

        The first pass is the shortest, so only `elapsed / first pass` passes are looked at.
        """
        if elapsed_ns <= 0:
            return 0, 0
        if batch <= self._summed_batches:
            sums, stop = self._sums[batch], context_tokens + passes * batch
            if stop < len(sums):
                total = sums[stop] - sums[context_tokens]
                if total < elapsed_ns:
                    return passes, int(total)
        table = self._table
        first = (
            table[context_tokens] if context_tokens < len(table) else self.decode_ns(batch, context_tokens)
        )
        most = int(elapsed_ns / first) + 1 if first else passes  # or one too many: that is taken back
        if most > passes:
            most = passes
        stop = context_tokens + most * batch
        if stop - batch >= len(table):
            return self._untabled_until(batch, context_tokens, most, elapsed_ns)
        if batch > self._summed_batches:
            total = sum(table[context_tokens:stop:batch])
        else:
            total = self._summed_ns(batch, context_tokens, stop)
        if total >= elapsed_ns:
            # The first pass is the shortest, so a few passes too many were counted: take them back.
            while total - table[stop - batch] >= elapsed_ns:
                stop -= batch
                most -= 1
                total -= table[stop]
        return most, int(total)

    def durations_ns(self, batch: int, context_tokens: int, passes: int) -> list[int]:
        """List the duration of each pass of a run."""
        rising = self._rising(batch, context_tokens, passes)
        durations = list(map(int, self._passes(context_tokens, batch, rising)))
        return durations + [self._full_ns] * (passes - rising)

    def forwards_ns(self, batch: int, contexts: list[int]) -> list[int]:
        """List the durations of forwards whose contexts never decrease."""
        table, longest = self._table, contexts[-1]
        if len(table) <= longest < self._total_tokens:
            self._grow(longest + 1)
        if longest < len(table):
            return list(map(int, map(table.__getitem__, contexts)))
        return [self.decode_ns(batch, context) for context in contexts]

    def decodes_ns(self, batches: Int64s, contexts: Int64s) -> Int64s:
        """Durations of many decode forwards."""
        import numpy as np  # noqa: PLC0415 - numpy costs start-up time that a small replay need not pay

        if len(contexts) and contexts.max() < len(self._table):
            return np.frombuffer(self._table, dtype=self._table.typecode)[contexts].astype(np.int64)
        if not self._total_tokens:
            return np.full_like(contexts, self._full_ns)
        return self._price(np.minimum(contexts, self._total_tokens).astype(np.float64))

    def tally_ns(
        self, batches: Int64s, contexts: Int64s, passes: Int64s, weights: Int64s
    ) -> tuple[Int64s, Int64s]:
        """Count the passes of many runs by context, hence by duration, where contexts meet often enough."""
        tokens, counts = tally_ramps(contexts, batches, passes, weights)
        return self.decodes_ns(tokens, tokens), counts

    def _summed_ns(self, batch: int, context_tokens: int, stop: int) -> float:
        """Sum the durations of a run of a small batch up to context `stop` (exclusive), all in the table."""
        sums = self._sums[batch]
        total: float
        if stop >= len(sums):
            # Most replays go on to need running sums: wait until a quarter of what they cost is spent.
            self._added[batch] += _PASS_ENTRIES * (stop - context_tokens) // batch
            if self._added[batch] < len(self._table) - len(sums):
                total = sum(self._table[context_tokens:stop:batch])
                return total
            self._added[batch] = 0
            self._extend_sums(batch)
        total = sums[stop] - sums[context_tokens]
        return total

    def _extend_sums(self, batch: int) -> None:
        """Bring the running sums of a batch up to the end of the table."""
        import numpy as np  # noqa: PLC0415 - as above

        table, sums = self._table, self._sums[batch]
        done = len(sums)
        sums.frombytes(bytes(8 * (len(table) + batch - done)))  # at once, so that it is moved only once
        grown, durations = np.frombuffer(sums), np.frombuffer(table)
        for start in range(done - batch, len(table), _CHUNK_TOKENS // batch * batch):
            added = durations[start : start + _CHUNK_TOKENS // batch * batch]
            # One column at a time: a cumulative sum down an array of few columns costs ten times as much.
            for column in range(start, start + min(batch, len(added))):
                terms = added[column - start :: batch].copy()
                terms[0] += sums[column]
                grown[column + batch : start + batch + len(added) : batch] = np.cumsum(terms)

    def _untabled_until(self, batch: int, context_tokens: int, most: int, elapsed_ns: int) -> tuple[int, int]:
        """Finish `passes_until` for a run of at least `most` passes that leaves the table."""
        rising = self._rising(batch, context_tokens, most)
        durations, count = self._passes(context_tokens, batch, rising), rising
        total = sum(durations)
        if total < elapsed_ns:
            return self._level_until(rising, most, int(total), elapsed_ns)
        while total - durations[count - 1] >= elapsed_ns:
            count -= 1
            total -= durations[count]
        return count, int(total)

    def _level_until(self, count: int, most: int, total: int, elapsed_ns: int) -> tuple[int, int]:
        """Finish `passes_until` where the pool is full and every pass lasts the same."""
        if count == most or not self._full_ns:
            return most, total
        extra = min(-(-(elapsed_ns - total) // self._full_ns), most - count)
        return count + extra, total + extra * self._full_ns

    def _rising(self, batch: int, context_tokens: int, passes: int) -> int:
        """How many of a run's first passes start with a pool that is not full."""
        return max(0, min(passes, -((context_tokens - self._total_tokens) // batch)))

    def _passes(self, context_tokens: int, batch: int, passes: int) -> array[Any] | list[int]:
        """Durations of passes that all lie inside the pool.

        Wide batches visit few of the contexts they pass over, so a table would be filled in vain.
        """
        stop = context_tokens + passes * batch
        if passes and stop - batch >= len(self._table):
            if passes <= _FEW_PASSES:
                self._spend(_ONE_ENTRIES * passes, stop - batch)
                return [self._evaluate(tokens) for tokens in range(context_tokens, stop, batch)]
            if batch >= _WIDE_BATCH:
                import numpy as np  # noqa: PLC0415 - as above

                self._spend(_CALL_ENTRIES + passes, stop - batch)
                tokens = np.arange(context_tokens, stop, batch, dtype=np.float64)
                durations: list[int] = self._price(tokens).tolist()
                return durations
            self._grow(stop - batch + 1)
        return self._table[context_tokens:stop:batch]

    def _spend(self, entries: int, context_tokens: int) -> None:
        """Count what contexts up to this one cost; tabulate them once that would have been as cheap."""
        self._spent += entries
        if len(self._table) + self._spent > context_tokens < _MOST_ENTRIES:
            self._spent = 0
            self._grow(context_tokens + 1)

    def _grow(self, tokens: int) -> None:
        """Tabulate at least the contexts below `tokens`, a whole chunk at a time."""
        import numpy as np  # noqa: PLC0415 - as above

        table = self._table
        while len(table) < tokens:
            start = len(table)
            stop = min(start + _CHUNK_TOKENS, self._total_tokens)
            chunk = self._priced(np.arange(start, stop, dtype=np.float64), table.typecode)
            table.frombytes(chunk.view(np.uint8).data)

    def _price(self, tokens: npt.NDArray[np.float64]) -> Int64s:
        """Durations at the given contexts, none beyond the pool."""
        return self._priced(tokens, "q")

    def _priced(self, tokens: npt.NDArray[np.float64], typecode: str) -> npt.NDArray[Any]:
        """Give them as numbers of this type; near-ties, where the order of terms counts, one by one."""
        import numpy as np  # noqa: PLC0415 - as above

        u = tokens / self._total_tokens
        ns = u * -25.74e6
        ns += 54.01e6
        ns *= u
        ns += 5.74e6  # above the rule's floor of 1 ms for every u
        durations, unsure = _rounded(ns)
        if self._decode_speedup not in (0.0, 1.0):
            durations, unsure_scaled = _rounded(durations / NS_PER_S / self._decode_speedup * NS_PER_S)
            unsure |= unsure_scaled
        whole = durations.astype(typecode, copy=False)
        if unsure.any():
            for index in np.flatnonzero(unsure).tolist():
                whole[index] = self._evaluate(int(tokens[index]))
        return whole

    def _evaluate(self, context_tokens: int) -> int:
        """Price one pass by the exact scalar rules; the table must agree with it everywhere."""
        ns = duration_ns(decode_ms(context_tokens, self._total_tokens))
        try:
            return scaled_ns(ns, self._decode_speedup)
        except OverflowError as error:
            raise TimingError(
                f"decode_speedup_ratio {self._decode_speedup!r} makes a pass too long to represent"
            ) from error


def _rounded(values_ns: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Round values to whole ns and mark those whose rounding must be decided exactly.

    Above 2**39 ns a float product may be off by a ten-thousandth, so then all of them are marked.
    """
    import numpy as np  # noqa: PLC0415 - numpy costs start-up time that a small replay need not pay

    rounded = np.rint(values_ns)
    if rounded.max(initial=0) > 1 << 39:
        return rounded, np.ones(len(rounded), dtype=np.bool_)
    return rounded, np.abs(values_ns - rounded) > _NEAR_TIE


@dataclass(frozen=True, slots=True)
class PolynomialTiming:
    """The polynomial pass times that the reference replays use by default."""

    def timer(self, total_kv_tokens: int, prefill_speedup: float, decode_speedup: float) -> PolynomialTimer:
        """Bind to a pool; ranks and candidates with equal arguments share one timer and its table."""
        return polynomial_timer(total_kv_tokens, prefill_speedup, decode_speedup)


@lru_cache(maxsize=8)
def polynomial_timer(total_kv_tokens: int, prefill_speedup: float, decode_speedup: float) -> PolynomialTimer:
    """Give the shared timer of these parameters (at most 32 bytes per pool token each)."""
    return PolynomialTimer(total_kv_tokens, prefill_speedup, decode_speedup)
