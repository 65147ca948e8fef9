"""The sequences that decode in every pass, kept so that k passes cost O(1).

Every member grows by one token per pass, so a member stores `base` and its length is `passes + base`.
A member opens a new KV block in the passes where its length is 1 modulo the block size, so counting
members by residue gives the block demand of any number of passes. It finishes at a known pass count, so
members sit in buckets by that count. (spec 09 section 2)
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence

_NEVER = 1 << 62


class DecodeSet:
    """Members in running order, with their total length and their future block demand.

    `passes`: passes done so far; `count` members; `context_tokens`: sum of their lengths before the next
    pass; `next_due`: pass count of the earliest finish; `residues`: members whose base is minus r modulo the
    block size, by r.
    """

    __slots__ = (
        "_block_size",
        "_buckets",
        "_finishes",
        "_openers",
        "context_tokens",
        "count",
        "members",
        "next_due",
        "passes",
        "reordered",
        "residues",
    )

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self.passes = 0
        self.context_tokens = self.count = 0
        self.next_due = _NEVER
        self.members: dict[Sequence, None] = {}
        self.residues = [0] * block_size
        # Members by residue, only kept once a preemption asked who opens a block.
        self._openers: list[dict[Sequence, None]] | None = None
        self._buckets: dict[int, list[Sequence]] = {}  # by the pass count in which they finish
        self._finishes: list[int] = []  # a heap of these
        self.reordered = False

    def add(self, sequence: Sequence) -> None:
        """Append a sequence that just emitted a token (its `tokens` counts it) to the running order."""
        tokens, passes = sequence.tokens, self.passes
        sequence.joined = passes
        base = sequence.base = tokens - passes
        self.members[sequence] = None
        self.count += 1
        self.context_tokens += tokens
        residue = -base % self._block_size
        self.residues[residue] += 1
        if self._openers is not None:
            self._openers[residue][sequence] = None
        finish = sequence.end_tokens - base
        if (bucket := self._buckets.get(finish)) is not None:
            bucket.append(sequence)
            return
        self._buckets[finish] = [sequence]
        heappush(self._finishes, finish)
        if finish < self.next_due:
            self.next_due = finish

    def add_all(self, sequences: list[Sequence]) -> None:
        """`add` for each of several: nearly all of a replay's requests pass through here.

        What is as of the one before is not worked out again: those of a synthetic load are all alike.
        """
        passes, size, context = self.passes, self._block_size, self.context_tokens
        members, residues = self.members, self.residues
        tokens = end = base = residue = -1
        bucket: list[Sequence] = []
        for sequence in sequences:
            if sequence.tokens != tokens or sequence.end_tokens != end:
                tokens, end = sequence.tokens, sequence.end_tokens
                base = tokens - passes
                residue = -base % size
                bucket = self._bucket(end - base)
            sequence.base = base
            sequence.joined = passes
            members[sequence] = None
            context += tokens
            residues[residue] += 1
            bucket.append(sequence)
        self.count += len(sequences)
        self.context_tokens = context
        if self._openers is not None:
            for sequence in sequences:
                self._openers[-sequence.base % size][sequence] = None

    def _bucket(self, finish: int) -> list[Sequence]:
        """Give the bucket of those who finish at this pass count, which one of them is put into now."""
        if (bucket := self._buckets.get(finish)) is None:
            bucket = self._buckets[finish] = []
            heappush(self._finishes, finish)
            if finish < self.next_due:
                self.next_due = finish
        return bucket

    def remove(self, sequence: Sequence) -> None:
        """Take out a member that is preempted; its `tokens` becomes its length."""
        # `_unbook`, without the call.
        base, passes = sequence.base, self.passes
        residue = -base % self._block_size
        self.residues[residue] -= 1
        if self._openers is not None:
            del self._openers[residue][sequence]
        finish = sequence.end_tokens - base
        bucket = self._buckets[finish]
        if bucket[-1] is sequence:  # most who give way are the last
            bucket.pop()
        else:
            bucket.remove(sequence)
        if not bucket and finish == self.next_due:
            self._drop_empty()
        del self.members[sequence]
        self.count -= 1
        tokens = sequence.tokens = passes + base
        self.context_tokens -= tokens

    def hold_back(self, sequence: Sequence) -> None:
        """Undo the growth of a member that did not take part in the last pass."""
        self._unbook(sequence)
        sequence.base -= 1
        self.context_tokens -= 1
        self._file(sequence)
        self.reordered = True

    def _file(self, sequence: Sequence) -> None:
        base = sequence.base
        residue = -base % self._block_size
        self.residues[residue] += 1
        if self._openers is not None:
            self._openers[residue][sequence] = None
        self._bucket(sequence.end_tokens - base).append(sequence)

    def _unbook(self, sequence: Sequence) -> None:
        """Take a member out of what is kept by residue, and out of its finish bucket."""
        base = sequence.base
        residue = -base % self._block_size
        self.residues[residue] -= 1
        if self._openers is not None:
            del self._openers[residue][sequence]
        finish = sequence.end_tokens - base
        bucket = self._buckets[finish]
        bucket.remove(sequence)
        if not bucket and finish == self.next_due:
            self._drop_empty()

    def _drop_empty(self) -> None:
        """Drop buckets that are empty at the head."""
        finishes, buckets = self._finishes, self._buckets
        while finishes and not buckets[finishes[0]]:
            del buckets[heappop(finishes)]
        self.next_due = finishes[0] if finishes else _NEVER

    def restore_order(self) -> None:
        """Bring members into running order after one was added behind later ones."""
        self.members = dict.fromkeys(sorted(self.members, key=running_order))
        self.reordered = True

    def pop_finished(self) -> list[Sequence]:
        """Take out, in running order, the members that finish at the current pass count: there are some."""
        finishes, buckets, size = self._finishes, self._buckets, self._block_size
        finished = buckets.pop(finish := heappop(finishes))
        if finishes and buckets[finishes[0]]:
            self.next_due = finishes[0]
        else:
            self._drop_empty()
        if len(finished) > 1:
            self._take_out_all(finished, finish)
            return finished
        # `_take_out_all` of the only one, as most end alone.
        (sequence,) = finished
        residue = -sequence.base % size
        if self._openers is not None:
            del self._openers[residue][sequence]
        self.residues[residue] -= 1
        del self.members[sequence]
        end = sequence.tokens = sequence.end_tokens
        self.context_tokens -= end
        self.count -= 1
        return finished

    def _take_out_all(self, finished: list[Sequence], finish: int) -> None:
        """Take out members that finish at that pass count; what is as of the one before is known."""
        if self.reordered:
            finished.sort(key=running_order)
        if (openers := self._openers) is not None:
            for sequence in finished:
                del openers[-sequence.base % self._block_size][sequence]
        members, residues, context = self.members, self.residues, 0
        end = residue = -1
        for sequence in finished:
            if sequence.end_tokens != end:
                end = sequence.end_tokens
                residue = (finish - end) % self._block_size
            residues[residue] -= 1
            del members[sequence]
            sequence.tokens = end
            context += end
        self.context_tokens -= context
        self.count -= len(finished)

    def openers(self) -> list[Sequence]:
        """List, in running order, the members that open a block in the next pass."""
        if self._openers is None:
            self._openers = [{} for _ in range(self._block_size)]
            for sequence in self.members:
                self._openers[-sequence.base % self._block_size][sequence] = None
        members = list(self._openers[(self.passes - 1) % self._block_size])
        if self.reordered:
            members.sort(key=running_order)
        return members

    def _next_residue(self) -> int:
        """Give the residue of the members that open a block in the next pass."""
        return (self.passes - 1) % self._block_size

    def opening(self) -> int:
        """Count the members that open a block in the next pass."""
        return self.residues[(self.passes - 1) % self._block_size]

    def demand(self, passes: int) -> int:
        """Blocks that the members open in the next `passes` passes together."""
        size, residues = self._block_size, self.residues
        if self.count == 1:
            before = self.context_tokens - 2
            return (before + passes) // size - before // size
        first = (self.passes - 1) % size
        if (last := first + passes) <= size:
            return sum(residues[first:last])
        rounds, last = divmod(last, size)
        if last >= first:
            return self.count * rounds + sum(residues[first:last])
        return self.count * rounds - sum(residues[last:first])

    def longest_within(self, passes: int, blocks: int) -> int:
        """Find the largest k <= passes whose demand is at most `blocks`; k = 1 is known to fit."""
        return self.longest_and_demand(passes, blocks)[0]

    def longest_and_demand(self, passes: int, blocks: int) -> tuple[int, int]:
        """Do the same, and give the demand of these passes."""
        size, residues = self._block_size, self.residues
        rounds, left = divmod(blocks, self.count)
        fitting = rounds * size
        if fitting >= passes:
            return passes, self.demand(passes)
        # What is left does not last for another round: not for long, most often.
        first, lasting = self._next_residue(), fitting
        for opened in (residues[first:] + residues[:first])[: passes - fitting]:
            if opened > left:
                break
            left -= opened
            lasting += 1
        return lasting, blocks - left

    def advance(self, passes: int) -> bool:
        """Let every member grow by `passes` tokens; return whether one of them may have finished."""
        done = self.passes = self.passes + passes
        self.context_tokens += passes * self.count
        return done >= self.next_due


def running_order(sequence: Sequence) -> int:
    """Order sequences by their admission."""
    return sequence.order
