"""The decoding set of an engine that gives a token its place in the pass that emits it."""

from __future__ import annotations

from aisimulate.engine.decode_set import DecodeSet


class PageDecoders(DecodeSet):
    """A `DecodeSet` whose members open a page in the passes that find their length a multiple of the page."""

    __slots__ = ()

    def _next_residue(self) -> int:
        """Give the residue of the members that open a page in the next pass."""
        return self.passes % self._block_size

    def opening(self) -> int:
        """Count the members that open a page in the next pass."""
        return self.residues[self.passes % self._block_size]

    def demand(self, passes: int) -> int:
        """Pages that the members open in the next `passes` passes together."""
        size, residues = self._block_size, self.residues
        if self.count == 1:
            before = self.context_tokens - 1
            return (before + passes) // size - before // size
        first = self.passes % size
        rounds, last = divmod(first + passes, size)
        if last >= first:
            return self.count * rounds + sum(residues[first:last])
        return self.count * rounds - sum(residues[last:first])
