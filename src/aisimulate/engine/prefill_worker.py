"""A worker with a single rank that only computes prompts, for other workers to decode.

Passes that compute middle chunks of one prompt decide nothing, so they follow each other as one row. The
first chunk leads the row where nobody else is in its pass and nobody looks before the end (`is_unwatched`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.chunk_rows import commit_row, plan_prompt_row
from aisimulate.engine.prompt_passes import plan_prompts
from aisimulate.engine.worker import RankWorker

if TYPE_CHECKING:
    from collections.abc import Collection

    from aisimulate.engine.handoff import Handoff
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


class PrefillWorker(RankWorker):
    """A worker of a rank that only computes prompts.

    `due` are prompts that were handed over while passes were in flight, in order. Each is given back at the
    first boundary from `released_ns` on, which is that boundary afterwards. Only an unwatched worker has any.
    """

    __slots__ = ("_given_back", "_leads", "due", "is_unwatched")

    def __init__(self, rank: RankScheduler) -> None:
        super().__init__(rank)
        self._given_back = 0  # prompts, since the row in flight began
        self._leads = False  # whether a first chunk precedes the row in flight
        self.is_unwatched = False
        self.due: list[Handoff] = []

    def start(self, now_ns: int) -> bool:
        """Begin a pass, or a row of them, at `now_ns`; return whether there was work for one."""
        rank = self._rank
        partial = rank.partial
        if not (partial or rank.waiting):
            return False
        self.busy = True
        self.plans += 1
        self._start_ns = now_ns
        if partial is not None and partial.input_tokens - partial.computed > rank.pass_tokens:
            self._given_back = 0
            if self._start_row(partial):
                return True
        if not self.is_unwatched or (pass_ns := plan_prompts(rank, now_ns)) < 0:
            self._passes = rank.plan(now_ns)
            pass_ns = rank.pass_ns
        self.end_ns = now_ns + pass_ns
        self.busy = rank.eventful
        if self.is_unwatched and (partial := rank.partial) is not None and not rank.joining:
            self._start_ns = self.end_ns
            self._leads = self._start_row(partial)
        return self.busy

    def _start_row(self, partial: Sequence) -> bool:
        """Begin a row of middle chunks at `_start_ns`, if at least one is next."""
        rank = self._rank
        if not self.is_unwatched:
            return self.plans_chunks and self._start_chunks(partial)
        if rank.unusual or not (chunks := plan_prompt_row(rank, partial)):
            return False
        self._chunks = chunks
        self.end_ns = self._start_ns + sum(chunks)
        return True

    def boundary_within(self, at_ns: int) -> int | None:
        """Find the first boundary from `at_ns` on inside the row in flight, for a prompt that is given back.

        None if there is none, or if the row has to be cut there. Else the next chunk takes what became free,
        even after a cut, so the same blocks are evicted in the end as if each pass had been planned alone.
        """
        chunks, rank = self._chunks, self._rank
        if len(chunks) < 2 or at_ns > self.end_ns - chunks[-1]:
            return None
        self._given_back += 1
        if self._given_back > rank.pass_tokens // rank.block_size // 2:
            return None  # half of a chunk, as some may be left over from a row that was cut
        return self._boundary_ns(at_ns)

    def _boundary_ns(self, at_ns: int) -> int:
        """Find the first boundary from `at_ns` on of the row in flight, which ends no earlier."""
        boundary_ns = self._start_ns
        if self._leads and boundary_ns >= at_ns:
            return boundary_ns
        for pass_ns in self._chunks:
            boundary_ns += pass_ns
            if boundary_ns >= at_ns:
                break
        return boundary_ns

    def cut(self, at_ns: int) -> None:
        """End the row in flight at its first pass boundary at or after `at_ns`: a prompt is given back."""
        if self._chunks:
            self._cut_chunks(at_ns)

    def finish(self) -> list[Sequence]:
        """End the passes in flight at `end_ns`; return the sequences that became terminal, in order."""
        if self._chunks:
            return self._end_chunks()
        self.busy = False
        if self.due:
            self.give_back(self.due, self.end_ns)
            self.due = []
        rank = self._rank
        if not self.is_unwatched or rank.unusual:
            return rank.commit(1, self.end_ns, self.end_ns)
        # The same, without the call.
        rank.decoders.passes += 1
        computed, rank.joining = rank.joining, []
        rank.held += len(computed)
        return computed

    def give_back(self, handoffs: Collection[Handoff], at_ns: int) -> None:
        """Give back the blocks of prompts that were handed over."""
        rank = self._rank
        pool, caching = rank.pool, rank.params.enable_prefix_caching
        rank.held -= len(handoffs)
        for handoff in handoffs:
            source = handoff.source
            if caching and source.segments is None:
                pool.release_cached(source, source.input_tokens)
            else:
                pool.release(source, source.input_tokens, caching)
            handoff.released_ns = at_ns

    def _end_chunks(self) -> list[Sequence]:
        if self._leads:
            self._rank.decoders.passes += 1
        if self.due:
            self._give_back_within()
        if self._chunks:
            super()._end_chunks()
        self._leads = self.busy = False
        self.give_back(self.due, self.end_ns)
        self.due.clear()
        return []

    def _give_back_within(self) -> None:
        """Give back what is due at boundaries before the last one of the row in flight.

        Each prompt frees a block at most. What is freed before the last chunk is taken by it, so the same
        blocks are evicted in the end as if they had been freed one by one between the chunks.
        """
        rank, end_ns = self._rank, self.end_ns
        within = [
            (boundary_ns, handoff)
            for handoff in self.due
            if (boundary_ns := self._boundary_ns(handoff.released_ns or 0)) < end_ns
        ]
        del self.due[: len(within)]
        if len(within) > rank.pass_tokens // rank.block_size:
            self._end_chunks_between(within)
            return
        for boundary_ns, handoff in within:
            self.give_back((handoff,), boundary_ns)

    def _end_chunks_between(self, within: list[tuple[int, Handoff]]) -> None:
        """Give prompts back, each before the chunk that begins at its boundary, and end the chunks."""
        partial, began_ns = self._rank.partial, self._start_ns
        assert partial is not None
        given = 0
        for pass_ns in self._chunks:
            while given < len(within) and within[given][0] <= began_ns:
                self.give_back((within[given][1],), began_ns)
                given += 1
            commit_row(self._rank, partial, [pass_ns], self.gap_log, began_ns)
            began_ns += pass_ns
        self._chunks = []
