"""How many tokens a decode forward yields when a draft of `nextn` tokens is verified with it.

The first token is always right. Each drafted token is accepted with its conditional rate, until the first one
that is not: a forward yields 1 to nextn + 1 tokens (spec 01 section 2.6).
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, islice, repeat
from random import Random
from typing import TYPE_CHECKING

from aisimulate.core.seeds import named_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SEEDS = 1 << 64


class Acceptance:
    """Draws the tokens of each forward of a request.

    `rates` are the conditional acceptance rates of the drafted tokens, 0 where they end before `nextn`.
    `most_tokens` is nextn + 1. Every request has a stream of its own, named by `seed` and its dispatch
    number: it does not depend on which requests decode beside it.
    """

    __slots__ = ("_fixed", "_reaches", "_seed", "most_tokens")

    def __init__(self, nextn: int, rates: tuple[float, ...], seed: int) -> None:
        self.most_tokens = nextn + 1
        self._seed = seed % _SEEDS
        self._reaches: list[float] = []  # probability that at least 1, 2, .. drafted tokens are accepted
        reach = 1.0
        for rate in rates[:nextn]:
            reach *= rate
            self._reaches.append(reach)
        certain = all(reach in (0.0, 1.0) for reach in self._reaches)
        self._fixed = 1 + self._reaches.count(1.0) if certain else None

    @property
    def expected_tokens(self) -> float:
        """Mean number of tokens of a forward."""
        return 1.0 + sum(self._reaches)

    def stream(self, request: int) -> Iterator[int]:
        """Yield the number of tokens of each successive forward of the request with this dispatch number."""
        if self._fixed is not None:
            return repeat(self._fixed)
        return self._drawn(self._uniform(request))

    def drawn(self, request: int, number: int) -> int:
        """Give the tokens of one of these forwards, counted from 0, whether the request has room or not."""
        return next(islice(self.stream(request), number, None))

    def lengths(self, request: int, length: int, end: int) -> list[int]:
        """Lengths of a request before its first forward, after each one, and at its `end`."""
        lengths = [length]
        if self._fixed is not None:
            lengths.extend(range(length + self._fixed, end, self._fixed))
        else:
            uniform = self._uniform(request)
            rising, most = self._reaches[::-1], 1 + len(self._reaches)
            while lengths[-1] < end:
                forwards = 1 + int((end - lengths[-1]) / self.expected_tokens)
                bursts = [most - bisect_right(rising, uniform()) for _ in range(forwards)]
                lengths.extend(accumulate(bursts, initial=lengths.pop()))
            while lengths[-1] >= end and len(lengths) > 1:
                lengths.pop()
        if length < end:
            lengths.append(end)
        return lengths

    def _uniform(self, request: int) -> Callable[[], float]:
        return Random(named_seed(self._seed, "acceptance", str(request))).random

    def _drawn(self, uniform: Callable[[], float]) -> Iterator[int]:
        while True:
            level = uniform()
            yield 1 + sum(level < reach for reach in self._reaches)
