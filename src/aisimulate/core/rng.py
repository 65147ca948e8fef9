"""The seeded random stream of the traffic generators: ChaCha with 12 rounds (spec 02 section 3).

The stream is fixed bit for bit, so Poisson arrivals and prefix groups compare number for number with
other simulators that use it.
"""

from __future__ import annotations

# Sixteen consecutive blocks are computed at once: block b sits in bits 64*b .. 64*b+31 of every word, so
# one big-integer operation does the same step of all sixteen. The upper half of a lane takes the carry
# of an addition and the overhang of a rotation; masking clears it.
_BLOCKS = 16
_LANE_BITS = 64
_WORD = 0xFFFF_FFFF
_ONES = sum(1 << (_LANE_BITS * lane) for lane in range(_BLOCKS))
_MASK = _ONES * _WORD
_LANE_INDEX = sum(lane << (_LANE_BITS * lane) for lane in range(_BLOCKS))

_DOUBLE_ROUNDS = 6
_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k", little-endian
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))

_SEED_MULTIPLIER = 6364136223846793005
_SEED_INCREMENT = 11634580027462260723
_KEY_WORDS = 8


class ChaChaRng:
    """Random numbers from a 64-bit seed; equal seeds give equal streams on every machine."""

    __slots__ = ("_buffer", "_counter", "_key")

    def __init__(self, seed: int) -> None:
        self._key = _expand_seed(seed)
        self._counter = 0
        self._buffer: list[int] = []  # words still to be handed out, next one last

    def u32(self) -> int:
        """Draw a 32-bit word."""
        if not self._buffer:
            self._buffer = _words(self._key, self._counter)
            self._buffer.reverse()
            self._counter += _BLOCKS
        return self._buffer.pop()

    def u64(self) -> int:
        """Draw a 64-bit word; its low half comes first in the stream."""
        low = self.u32()
        return low | self.u32() << 32

    def f64(self) -> float:
        """Draw a float in [0, 1) with 53 random bits."""
        return (self.u64() >> 11) * 2.0**-53

    def below(self, bound: int) -> int:
        """Draw an integer in [0, bound) for a bound of 1 .. 2**32 - 1.

        The upper half of a 32 x 32 bit product, with one further draw where the lower half could carry.
        """
        product = self.u32() * bound
        result, low = product >> 32, product & _WORD
        if low > (-bound & _WORD):
            carry = low + (self.u32() * bound >> 32)
            result += carry >> 32
        return result


def _expand_seed(seed: int) -> list[int]:
    """Derive the 256-bit key by eight steps of PCG32 (XSH-RR), each advanced before its output."""
    state = seed
    key = []
    for _ in range(_KEY_WORDS):
        state = (state * _SEED_MULTIPLIER + _SEED_INCREMENT) & 0xFFFF_FFFF_FFFF_FFFF
        word = ((state >> 18 ^ state) >> 27) & _WORD
        turn = state >> 59
        key.append((word >> turn | word << (32 - turn)) & _WORD)
    return key


def _words(key: list[int], counter: int) -> list[int]:
    """Compute blocks `counter` .. `counter + 15`: 16 words each, in stream order."""
    start = _initial_state(key, counter)
    state = start.copy()
    for _ in range(_DOUBLE_ROUNDS):
        for a, b, c, d in _COLUMNS:
            _quarter_round(state, a, b, c, d)
        for a, b, c, d in _DIAGONALS:
            _quarter_round(state, a, b, c, d)
    summed = [x + y & _MASK for x, y in zip(state, start, strict=True)]
    shifts = range(0, _BLOCKS * _LANE_BITS, _LANE_BITS)
    return [word >> shift & _WORD for shift in shifts for word in summed]


def _initial_state(key: list[int], counter: int) -> list[int]:
    """Lay out constants, key, 64-bit block counter (it is a multiple of 16) and a zero nonce."""
    low = (counter & _WORD) * _ONES + _LANE_INDEX
    high = (counter >> 32 & _WORD) * _ONES
    return [word * _ONES for word in (*_CONSTANTS, *key)] + [low, high, 0, 0]


def _quarter_round(state: list[int], a: int, b: int, c: int, d: int) -> None:
    """Mix four words of all blocks in place."""
    state[a] = state[a] + state[b] & _MASK
    state[d] = _rotate(state[d] ^ state[a], 16)
    state[c] = state[c] + state[d] & _MASK
    state[b] = _rotate(state[b] ^ state[c], 12)
    state[a] = state[a] + state[b] & _MASK
    state[d] = _rotate(state[d] ^ state[a], 8)
    state[c] = state[c] + state[d] & _MASK
    state[b] = _rotate(state[b] ^ state[c], 7)


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK
