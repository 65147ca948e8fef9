"""The decoding set of an engine that gives a token its place in the pass that emits it."""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING

from aisimulate.engine.decode_set import DecodeSet

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence


class PageDecoders(DecodeSet):
    """A `DecodeSet` whose members open a page in the passes that find their length a multiple of the page.

    Nobody asks which members open one.
    """

    __slots__ = ()

    def add(self, sequence: Sequence) -> None:
        """Append a sequence that just emitted a token (its `tokens` counts it) to the running order."""
        tokens = sequence.tokens
        sequence.joined = self.passes
        base = sequence.base = tokens - self.passes
        self.members[sequence] = None
        self.count += 1
        self.context_tokens += tokens
        self._residues[-base % self._block_size] += 1
        finish = sequence.end_tokens - base
        if (bucket := self._buckets.get(finish)) is not None:
            bucket[sequence] = None
            return
        self._buckets[finish] = {sequence: None}
        heappush(self._finishes, finish)
        if finish < self.next_due:
            self.next_due = finish

    def _next_residue(self) -> int:
        """Give the residue of the members that open a page in the next pass."""
        return self.passes % self._block_size

    def opening(self) -> int:
        """Count the members that open a page in the next pass."""
        return self.residues[self.passes % self._block_size]

    def demand(self, passes: int) -> int:
        """Pages that the members open in the next `passes` passes together."""
        size, residues = self._block_size, self.residues
        rounds = passes // size
        first = self.passes % size
        last = first + passes - rounds * size
        if last <= size:
            return self.count * rounds + sum(residues[first:last])
        return self.count * rounds + sum(residues[first:]) + sum(residues[: last - size])
