"""Step times of many engines as arrays, so that a whole pool of candidates is priced at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from aisimulate.core.errors import AISimulateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_GROWTH = 1.15  # from one batch that is asked for to the next, where times go in straight lines
_EXACT_BATCHES = 8
_TOLERANCE = 0.003  # a straight line that is further off is cut in two
_TOKEN_BITS = 24  # of a length or a batch in a code; engines have the rest of 63 bits
_LARGEST = (1 << _TOKEN_BITS) - 1
_BATCH_BITS = 16
_LARGEST_BATCH = (1 << _BATCH_BITS) - 1


class StepTimes(Protocol):
    """Durations of single forwards on one rank, in ms."""

    def prefill_ms(self, batch: int, new_tokens: int, prefix_tokens: int) -> float:
        """Time `batch` prompts whose last `new_tokens` are computed."""
        ...

    def decode_ms(self, batch: int, context_tokens: int) -> float:
        """Time one token each for `batch` sequences of a mean context."""
        ...


class StepBook:
    """Step times by the number that `add` gave an engine; NaN where an engine has no data.

    Prefills are exact. Decodes are asked for at some batches and interpolated between them, to 0.3 %.
    """

    def __init__(self) -> None:
        self._engines: list[StepTimes] = []
        self._decodes: dict[int, _DecodeTable] = {}

    def add(self, engine: StepTimes) -> int:
        """Take an engine up; return its number."""
        self._engines.append(engine)
        return len(self._engines) - 1

    @property
    def size(self) -> int:
        """The number of engines."""
        return len(self._engines)

    def engine(self, number: int) -> StepTimes:
        """Return an engine by its number."""
        return self._engines[number]

    def decode_ms(self, engines: Ints, batches: Ints, context_tokens: int) -> Floats:
        """Time one token each for whole batches at one mean context."""
        table = self._decodes.get(context_tokens)
        if table is None:
            table = self._decodes[context_tokens] = _DecodeTable(self._engines, context_tokens)
        return table.look_up(engines, batches)

    def decode_between_ms(self, engines: Ints, batches: Floats, context_tokens: int) -> Floats:
        """Time batches that are whole on average only; one below 1 costs as much as 1."""
        low = np.maximum(np.floor(batches).astype(np.int64), 1)
        high_ms = self.decode_ms(engines, low + 1, context_tokens)
        low_ms = self.decode_ms(engines, low, context_tokens)
        return low_ms + np.maximum(batches - low, 0.0) * (high_ms - low_ms)

    def prompts_ms(self, engines: Ints, batches: Ints, tokens: int) -> Floats:
        """Time whole prompts of one length, `batches` at a time."""
        codes = engines << _TOKEN_BITS | np.minimum(batches, _LARGEST)
        return self._by_code(
            codes, lambda engine, batch: _or_nan(lambda: engine.prefill_ms(batch, tokens, 0))
        )

    def chunks_ms(self, engines: Ints, new_tokens: Ints, prefix_tokens: Ints) -> Floats:
        """Time the last `new_tokens` of single prompts."""
        codes = (engines << _TOKEN_BITS | prefix_tokens) << _TOKEN_BITS | new_tokens

        def ask(engine: StepTimes, rest: int) -> float:
            return _or_nan(lambda: engine.prefill_ms(1, rest & _LARGEST, rest >> _TOKEN_BITS))

        return self._by_code(codes, ask, 2 * _TOKEN_BITS)

    def _by_code(
        self, codes: Ints, ask: Callable[[StepTimes, int], float], bits: int = _TOKEN_BITS
    ) -> Floats:
        """Ask once for every distinct code: the number of an engine above `bits` bits of a question."""
        distinct, places = np.unique(codes, return_inverse=True)
        engines = self._engines
        answers = [ask(engines[code >> bits], code & ((1 << bits) - 1)) for code in distinct.tolist()]
        return np.array(answers, dtype=np.float64)[places]


class _DecodeTable:
    """Decode times of all engines at one context, a row per engine and a column per batch."""

    def __init__(self, engines: list[StepTimes], context_tokens: int) -> None:
        self._engines = engines
        self._context = context_tokens
        self._rows: Floats = np.full((0, 0), np.nan)
        self._filled: list[int] = []  # by engine: the largest batch that is known

    def look_up(self, engines: Ints, batches: Ints) -> Floats:
        """Return the times of (engine, batch) pairs."""
        batches = np.minimum(batches, _LARGEST_BATCH)
        self._make_room(int(batches.max(initial=1)))
        needed = np.zeros(len(self._engines), dtype=np.int64)
        np.maximum.at(needed, engines, batches)
        for engine in np.flatnonzero(needed > np.array(self._filled)).tolist():
            self._fill(engine, int(needed[engine]))
        found: Floats = self._rows[engines, batches]
        return found

    def _make_room(self, batch: int) -> None:
        self._filled += [0] * (len(self._engines) - len(self._filled))
        rows, columns = len(self._engines), max(self._rows.shape[1], _next_knot(batch) + 1)
        if (rows, columns) != self._rows.shape:
            grown = np.full((rows, columns), np.nan)
            grown[: self._rows.shape[0], : self._rows.shape[1]] = self._rows
            self._rows = grown

    def _fill(self, engine: int, batch: int) -> None:
        """Extend a row to the first knot at or above a batch."""
        row, known = self._rows[engine], self._filled[engine]
        while known < batch:
            following = _next_knot(known + 1)
            row[following] = self._ask(engine, following)
            if known > 0:
                self._straighten(engine, known, following)
            known = following
        self._filled[engine] = known

    def _straighten(self, engine: int, low: int, high: int) -> None:
        """Fill what is between two known batches, by a line where the middle lies on it."""
        row, middle = self._rows[engine], (low + high) // 2
        if middle == low:
            return
        row[middle] = self._ask(engine, middle)
        line = row[low] + (row[high] - row[low]) * (middle - low) / (high - low)
        if abs(line - row[middle]) <= _TOLERANCE * row[middle]:
            between = np.arange(low + 1, high)
            row[low + 1 : high] = np.interp(between, [low, middle, high], row[[low, middle, high]])
        else:
            self._straighten(engine, low, middle)
            self._straighten(engine, middle, high)

    def _ask(self, engine: int, batch: int) -> float:
        return _or_nan(lambda: self._engines[engine].decode_ms(batch, self._context))


def _next_knot(batch: int) -> int:
    """Return the first batch that is always asked for, at or above another."""
    knot = _EXACT_BATCHES
    if batch <= knot:
        return max(batch, 1)
    while knot < batch:
        knot = int(knot * _GROWTH) + 1
    return knot


def _or_nan(ask: Callable[[], float]) -> float:
    """Return NaN where there are no data."""
    try:
        return ask()
    except AISimulateError:
        return float("nan")
