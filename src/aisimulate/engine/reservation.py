"""What an SGLang rank reserves for the outputs of its decoders: a share of what they may still generate.

The share decays with every pass that does not prefill (spec 01 section 3.3). Its values and the sum over the
decoders are those of floating-point arithmetic in a fixed order, because admission compares with them.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.engine.sequence import Sequence

_NEVER = 1 << 62
_FIRST_RATIO = 0.7
_LEAST_SHARE = 0.14
_DECAY_PASSES = 600.0


class ReservationRatio:
    """The share, which decays step by step from `first` down to `least`; `steps` of them are done.

    It never exceeds `highest`.
    """

    __slots__ = ("_values", "decay", "first", "highest", "least", "steps")

    def __init__(self, conservativeness: float) -> None:
        self.first = _FIRST_RATIO * conservativeness
        self.highest = max(self.first, 1.0)
        self.least = self.first * _LEAST_SHARE
        self.decay = (self.first - self.least) / _DECAY_PASSES
        self._values = [self.first]  # as far as they were asked for
        self.steps = 0

    @property
    def value(self) -> float:
        """The share now."""
        return self.ahead(0)

    def ahead(self, passes: int) -> float:
        """Tell the share after `passes` more passes."""
        values = self._values
        index = self.steps + passes
        while len(values) <= index and values[-1] != self.least:
            values.append(max(self.least, values[-1] - self.decay))
        return values[index] if index < len(values) else self.least

    def advance(self, passes: int) -> None:
        """Let it decay."""
        self.steps += passes

    def kept(self) -> tuple[list[float], int]:
        """Give what `restore` needs to undo changes."""
        return self._values, self.steps

    def restore(self, kept: tuple[list[float], int]) -> None:
        """Undo the changes since."""
        self._values, self.steps = kept

    def restart(self, value: float) -> None:
        """Set it to another value, at most `highest`, from where it decays."""
        self.steps = 0
        if self._values[0] != value:
            self._values = [value]


class Reservations:
    """The sum over decoders of the tokens they may still generate, each counted as at most `clip`.

    A decoder's remaining tokens are its finishing pass minus the passes done, so the sum for any pass is
    O(1); those above `clip` are kept apart until somebody asks for the sum when they no longer are.
    """

    __slots__ = ("_clip", "_clipped", "_entries", "_finishes", "_turns", "count")

    def __init__(self, clip: int) -> None:
        self._clip = clip
        self.count = 0  # decoders whose tokens are counted in full
        self._finishes = 0  # sum of their finishing passes
        self._clipped: dict[Sequence, None] = {}
        self._turns: list[tuple[int, int, Sequence]] = []  # when the others are no longer above the clip
        self._entries = 0

    def add(self, sequence: Sequence, passes: int) -> None:
        """Count a decoder; `passes` are done."""
        finish = sequence.end_tokens - sequence.base
        if finish - passes <= self._clip:
            self.count += 1
            self._finishes += finish
            return
        self._clipped[sequence] = None
        self._entries += 1
        heappush(self._turns, (finish - self._clip, self._entries, sequence))

    def remove(self, sequence: Sequence) -> None:
        """Forget a decoder."""
        if sequence in self._clipped:
            del self._clipped[sequence]
        else:
            self.count -= 1
            self._finishes -= sequence.end_tokens - sequence.base

    def finish(self, finished: int, passes: int) -> None:
        """Forget decoders whose finishing pass is `passes`, the last of those done."""
        if self._clipped:
            self._advance(passes)
        self.count -= finished
        self._finishes -= finished * passes

    def _advance(self, passes: int) -> None:
        """Take note that `passes` are done."""
        turns = self._turns
        while turns and turns[0][0] <= passes:
            turn, _, sequence = heappop(turns)
            if sequence in self._clipped and sequence.end_tokens - sequence.base - self._clip == turn:
                del self._clipped[sequence]
                self.count += 1
                self._finishes += sequence.end_tokens - sequence.base

    def next_turn(self) -> int:
        """Give the pass count up to which `tokens` may be asked for in advance, once it was asked for now."""
        return self._turns[0][0] if self._turns else _NEVER

    def tokens(self, passes: int) -> int:
        """Sum up for when `passes` are done."""
        if self._turns and self._turns[0][0] <= passes:
            self._advance(passes)
        return self._finishes - self.count * passes + self._clip * len(self._clipped)

    def exact(self, decoders: Iterable[Sequence], passes: int, ratio: float) -> float:
        """Add up the shares one by one in running order, as the engine does; O(decoders)."""
        clip, total = self._clip, 0.0
        for sequence in decoders:
            total += min(sequence.end_tokens - sequence.base - passes, clip) * ratio
        return total
