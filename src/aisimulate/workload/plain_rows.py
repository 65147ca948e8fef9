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

    Codes: TypeAlias = npt.NDArray[np.uint8]
    Wholes: TypeAlias = npt.NDArray[np.uint64]
    Places: TypeAlias = npt.NDArray[np.int64]

_ZERO, _DIGITS = ord("0"), 10
_MOST_DIGITS = 20  # of numbers of 64 bits
_MOST_NUMBER = np.uint64(2**64 - 1)
_WORD = 8  # digits, one a byte
# Of the last eight characters of a number, by its length: the bits that tell digits apart.
_DIGIT_BITS = np.array(
    [
        int.from_bytes(bytes(max(_WORD - n, 0)).ljust(_WORD, b"\x0f"), "little")
        for n in range(_MOST_DIGITS + 1)
    ],
    np.uint64,
)
_MOST_BYTES = 1 << 22  # of lines to read at once: what is known of each number takes ten times as much
_END_OF_ROW = b"]}\n"


class PlainRows(NamedTuple):
    """Columns of one number a row, `ids` of `id_counts[i]` for row i, one row after the other."""

    times_ms: Wholes
    inputs: Wholes
    outputs: Wholes
    id_counts: Places
    ids: Wholes


class _Spelling:
    """How a writer separates what is in a row: by the texts between its numbers."""

    def __init__(self, comma: bytes, colon: bytes) -> None:
        names = [b'"%s"%s' % (name.encode(), colon) for name in PLAIN_FIELDS]
        self.before = b"{" + names[0]
        self._between = [comma + name for name in names[1:]]
        self._between[-1] += b"["
        self._comma = comma
        self._next_row = _END_OF_ROW + self.before

    def row_stops(self, codes: Codes, ends: Places) -> Places | None:
        """Tell how many of the numbers, which end at `ends`, there are up to the end of each row.

        None if there is not a comma behind each of the others.
        """
        stops = np.flatnonzero(codes.take(ends) == _END_OF_ROW[0]) + 1
        commas = (np.count_nonzero(codes.take(ends + i) == code) for i, code in enumerate(self._comma))
        return stops if all(count == len(ends) - len(stops) for count in commas) else None

    def starts(self, text: bytes, ends: Places, firsts: Places) -> Places | None:
        """Find where the numbers start, of rows that begin at the numbers `firsts`.

        None if it is something else than names of fields, or ends of rows, that is where these have to be.
        """
        starts = np.empty(len(ends) + 1, ends.dtype)
        np.add(ends, len(self._comma), out=starts[1:])
        starts[0] = len(self.before)
        for place, expected in enumerate(self._between):
            if not _are(text, ends[firsts + place], expected):
                return None
            starts[firsts + place + 1] += len(expected) - len(self._comma)
        if not _are(text, ends[firsts[1:] - 1], self._next_row):
            return None
        starts[firsts[1:]] += len(self._next_row) - len(self._comma)
        return starts[:-1]


_SPELLINGS = (_Spelling(b", ", b": "), _Spelling(b",", b":"))


def plain_rows(text: bytes) -> PlainRows | None:
    """Read whole lines, each of a plain row with whole numbers of 0 or more; None if one is not such."""
    spelling = next((each for each in _SPELLINGS if text.startswith(each.before)), None)
    if spelling is None or not text.endswith(_END_OF_ROW) or len(text) > _MOST_BYTES:
        return None
    codes = np.frombuffer(text, np.uint8)
    is_digit = codes - _ZERO < _DIGITS  # unsigned: what is below "0" becomes large
    ends = np.flatnonzero(is_digit[:-1] > is_digit[1:]) + 1
    if not len(ends) or ends[-1] != len(text) - len(_END_OF_ROW):
        return None
    if (stops := spelling.row_stops(codes, ends)) is None:
        return None
    counts = np.diff(stops, prepend=0) - len(PLAIN_FIELDS) + 1
    firsts = stops - counts - len(PLAIN_FIELDS) + 1
    if counts.min() < 1 or (starts := spelling.starts(text, ends, firsts)) is None:
        return None
    lengths = ends - starts
    # What is between the numbers is known: as many digits as there is room for leave none to anything else.
    if lengths.min() < 1 or lengths.max() > _MOST_DIGITS or lengths.sum() != np.count_nonzero(is_digit):
        return None
    if (lengths[codes.take(starts) == _ZERO] > 1).any():
        return None  # JSON has no numbers such as 007
    if (numbers := _numbers(text, ends, lengths)) is None:
        return None
    is_id = np.ones(len(numbers), bool)
    for place in range(len(PLAIN_FIELDS) - 1):
        is_id[firsts + place] = False
    return PlainRows(
        numbers[firsts], numbers[firsts + 1], numbers[firsts + 2], counts, numbers.compress(is_id)
    )


def _are(text: bytes, places: Places, expected: bytes) -> bool:
    """Whether that text is at each of these places, which are in ascending order."""
    length, count = len(expected), len(places)
    if not count or places[-1] + length > len(text):
        return not count
    texts = np.ndarray((len(text) - length + 1,), f"S{length}", text, strides=(1,))
    return texts[places].tobytes() == expected * count


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
    words &= _DIGIT_BITS.take(lengths)
    words = (words * np.uint64(10) + (words >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    words = (words * np.uint64(100) + (words >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return (words * np.uint64(10000) + (words >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
