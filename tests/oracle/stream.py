"""The seeded random stream of synthetic traffic: ChaCha with 12 rounds (spec 02 section 3)."""

from __future__ import annotations

import math
from itertools import count

WORD = 0xFFFFFFFF
COLUMNS = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
DIAGONALS = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
CONSTANTS = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]  # "expand 32-byte k"


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & WORD


def _key(seed: int) -> list[int]:
    """Expand a 64-bit seed into 8 words by PCG32."""
    state, words = seed, []
    for _ in range(8):
        state = (state * 6364136223846793005 + 11634580027462260723) % 2**64
        mixed = ((state >> 18) ^ state) >> 27 & WORD
        words.append(_rotate(mixed, (32 - (state >> 59)) % 32))
    return words


def _block(key: list[int], counter: int) -> list[int]:
    start = [*CONSTANTS, *key, counter & WORD, counter >> 32, 0, 0]
    state = start.copy()
    for _ in range(6):
        for a, b, c, d in COLUMNS + DIAGONALS:
            for left, right in ((16, 12), (8, 7)):
                state[a] = (state[a] + state[b]) & WORD
                state[d] = _rotate(state[d] ^ state[a], left)
                state[c] = (state[c] + state[d]) & WORD
                state[b] = _rotate(state[b] ^ state[c], right)
    return [(x + y) & WORD for x, y in zip(state, start, strict=True)]


class Stream:
    """Draws from one seed."""

    def __init__(self, seed: int) -> None:
        key = _key(seed)
        self._words = (word for counter in count() for word in _block(key, counter))

    def unit(self) -> float:
        """Uniform in [0, 1) with 53 bits."""
        low = next(self._words)
        return ((low | next(self._words) << 32) >> 11) * 2.0**-53

    def below(self, bound: int) -> int:
        """Uniform integer in 0..bound-1."""
        product = next(self._words) * bound
        high, low = product >> 32, product & WORD
        if low > -bound & WORD:
            high += low + (next(self._words) * bound >> 32) > WORD
        return high


def poisson_arrivals_ms(seed: int, rate: float, number: int) -> list[float]:
    """`number` arrival instants, the first at 0, with exponential gaps of mean 1000 / `rate` ms."""
    stream, now, instants = Stream(seed), 0.0, [0.0]
    for _ in range(number - 1):
        now -= 1000.0 / rate * math.log(min(max(1.0 - stream.unit(), 2.2250738585072014e-308), 1.0))
        instants.append(now)
    return instants
