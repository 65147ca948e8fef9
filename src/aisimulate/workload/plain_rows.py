"""The numbers of plain Mooncake rows, found in many of them at once.

Nearly all rows of nearly all traces have the four usual fields in their usual order, and are spelled as JSON
writers spell them, with a space behind each comma and colon or without. Of such a row only the digits and the
number of its content ids are its own: take the digits away, and what is left is known beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from aisimulate.workload.plain import PLAIN_FIELDS

if TYPE_CHECKING:
    import numpy.typing as npt

    Wholes: TypeAlias = npt.NDArray[np.uint64]
    Places: TypeAlias = npt.NDArray[np.int64]

_DIGITS = b"0123456789"
_ZERO, _NEWLINE = ord("0"), ord("\n")
_MOST_DIGITS = 20  # of numbers of 64 bits
_MOST_NUMBER = np.uint64(2**64 - 1)
_WORD = 8  # digits, one a byte
_MOST_BYTES = 1 << 22  # of lines to read at once: what is known of each number takes ten times as much


class PlainRows(NamedTuple):
    """Columns of one number a row, `ids` of `id_counts[i]` for row i, one row after the other."""

    times_ms: Wholes
    inputs: Wholes
    outputs: Wholes
    id_counts: Places
    ids: Wholes


class _Spelling:
    """How a writer separates what is in a row, by the lengths of the texts between its numbers."""

    def __init__(self, comma: bytes, colon: bytes) -> None:
        names = [b'"%s"%s' % (name.encode(), colon) for name in PLAIN_FIELDS]
        self.before = b"{" + names[0]
        self._between = [comma + name for name in names[1:]]
        self._between[-1] += b"["
        self._comma, self._after = comma, b"]}\n"
        self._blank = self.before + b"".join(self._between)

    def blank(self, id_counts: list[int]) -> bytes:
        """Spell rows of so many ids each without their digits."""
        lines = {
            count: self._blank + self._comma * (count - 1) + self._after for count in dict.fromkeys(id_counts)
        }
        return b"".join(map(lines.__getitem__, id_counts))

    def gaps(self, firsts: Places, numbers: int) -> Places:
        """Measure what is between one number and the next; rows begin at the numbers `firsts`."""
        gaps = np.full(numbers, len(self._comma))
        for place, text in enumerate(self._between):
            gaps[firsts + place] = len(text)
        gaps[firsts - 1] = len(self._after) + len(self.before)  # before the first row: cut off, as the last
        return gaps[:-1]


_SPELLINGS = (_Spelling(b", ", b": "), _Spelling(b",", b":"))


def plain_rows(text: bytes) -> PlainRows | None:
    """Read whole lines, each of a plain row with whole numbers of 0 or more; None if one is not such."""
    spelling = next((each for each in _SPELLINGS if text.startswith(each.before)), None)
    if spelling is None or text[-1] != _NEWLINE or len(text) > _MOST_BYTES:
        return None
    codes = np.frombuffer(text, np.uint8)
    is_digit = codes - _ZERO < len(_DIGITS)  # unsigned: what is below "0" becomes large
    edges = np.flatnonzero(is_digit[1:] != is_digit[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]  # the first character is no digit, nor is the last
    # How many numbers there are up to the end of each line, and in it.
    stops = np.searchsorted(starts, np.flatnonzero(codes == _NEWLINE))
    counts = np.diff(stops, prepend=0) - len(PLAIN_FIELDS) + 1
    firsts = stops - counts - len(PLAIN_FIELDS) + 1
    if counts.min() < 1 or starts[0] != len(spelling.before):
        return None
    # Equal texts without digits, and equal distances of the numbers, leave no place for anything else.
    if text.translate(None, _DIGITS) != spelling.blank(counts.tolist()):
        return None
    if (starts[1:] - ends[:-1] != spelling.gaps(firsts, len(starts))).any():
        return None
    lengths = ends - starts
    if lengths.max() > _MOST_DIGITS or (lengths[codes[starts] == _ZERO] > 1).any():
        return None  # JSON has no numbers such as 007
    if (numbers := _numbers(text, ends, lengths)) is None:
        return None
    is_id = np.ones(len(numbers), bool)
    for place in range(len(PLAIN_FIELDS) - 1):
        is_id[firsts + place] = False
    return PlainRows(numbers[firsts], numbers[firsts + 1], numbers[firsts + 2], counts, numbers[is_id])


def _numbers(text: bytes, ends: Places, lengths: Places) -> Wholes | None:
    """Read the numbers that end (exclusive) at these places, of so many digits: eight of these at a time.

    None if one has more than 64 bits.
    """
    numbers = _last_digits(text, ends, lengths)
    for done in range(_WORD, _MOST_DIGITS, _WORD):
        if (longer := np.flatnonzero(lengths > done)).size:
            left, unit = _last_digits(text, ends[longer] - done, lengths[longer] - done), np.uint64(10**done)
            if (left > (_MOST_NUMBER - numbers[longer]) // unit).any():
                return None
            numbers[longer] += left * unit
    return numbers


def _last_digits(text: bytes, ends: Places, lengths: Places) -> Wholes:
    """Give the number that the last digits, eight at most, before each of these places are.

    Digits are the bytes of a word, the last in the highest: neighbours become numbers of two digits, these of
    four, and these of eight.
    """
    words = np.ndarray((len(text) - _WORD + 1,), "<u8", text, strides=(1,))[ends - _WORD]
    others = np.maximum(_WORD - lengths, 0).astype(np.uint64)  # bytes before the number
    words &= np.uint64(0x0F0F0F0F0F0F0F0F) << (others * np.uint64(8))
    words = (words * np.uint64(10) + (words >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    words = (words * np.uint64(100) + (words >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return (words * np.uint64(10000) + (words >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
