"""SGLang with speculative decoding (spec 01 sections 2.6, 3.3): bursts of tokens in decode passes.

The pass that prefills a prompt emits its first token alone. In a decode pass every decoder gets 1 to
nextn + 1 tokens at once: pages for the longest burst of each are set aside first, those left over return.
Decoders grow by different numbers of tokens, so passes are planned one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.engine.page_decoders import PageDecoders
from aisimulate.engine.reservation import Reservations
from aisimulate.engine.sglang_scheduler import SglangScheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.core.protocols import PassTimer
    from aisimulate.engine.params import SglangParams
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.speculation import Acceptance


class BurstDecoders(PageDecoders):
    """Members that grow by up to `most_tokens` in a pass; the length of each stays `passes + base`."""

    __slots__ = ("_most_tokens",)

    def __init__(self, block_size: int, most_tokens: int) -> None:
        super().__init__(block_size)
        self._most_tokens = most_tokens

    def add(self, sequence: Sequence) -> None:
        """Append a sequence to the running order."""
        sequence.joined = self.passes
        sequence.base = sequence.tokens - self.passes
        self.members[sequence] = None
        self.count += 1
        self.context_tokens += sequence.tokens

    def remove(self, sequence: Sequence) -> None:
        """Take out a member that is retracted, or complete."""
        del self.members[sequence]
        self.count -= 1
        self.context_tokens -= sequence.tokens

    def opening(self) -> int:
        """Count the pages that the longest bursts of all members would open."""
        size, most, pages = self._block_size, self._most_tokens, 0
        for sequence in self.members:
            tokens, reach = sequence.tokens, sequence.tokens + most
            end = sequence.end_tokens
            pages += -(-(reach if reach < end else end) // size) - -(-tokens // size)
        return pages


class BurstReservations(Reservations):
    """The same sum, over decoders that do not tell when they finish."""

    __slots__ = ("_decoders",)

    def __init__(self, clip: int, decoders: BurstDecoders) -> None:
        super().__init__(clip)
        self._decoders = decoders

    def add(self, sequence: Sequence, passes: int) -> None:
        """Count a decoder: they are asked when the sum is needed."""

    def remove(self, sequence: Sequence) -> None:
        """Forget a decoder."""

    def tokens(self, passes: int) -> int:
        """Sum up for now."""
        del passes
        clip = self._clip
        return sum([min(other.end_tokens - other.tokens, clip) for other in self._decoders.members])


class SpeculativeSglangScheduler(SglangScheduler):
    """A rank whose decoders get bursts of tokens; `zero_gaps` counts the gaps of 0 ns inside of them.

    Of completed sequences only. `forwards` of a sequence counts the instants at which it emitted.
    """

    __slots__ = ("_acceptance", "_streams", "accepted", "zero_gaps")

    decoders: BurstDecoders

    def __init__(self, params: SglangParams, timer: PassTimer, acceptance: Acceptance) -> None:
        super().__init__(params, timer)
        self._acceptance = acceptance
        self.decoders = BurstDecoders(params.block_size, acceptance.most_tokens)
        self.reservations = BurstReservations(params.clip_max_new_tokens, self.decoders)
        self.planned = 1  # never 0: there are no runs of passes that nobody looks into
        self.zero_gaps = 0
        self.accepted = 0  # drafts of the last pass, be they more than are still to be generated
        self._streams: dict[Sequence, Iterator[int]] = {}  # of sequences that decode or were retracted

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence that arrived on this rank."""
        sequence.forwards = 0
        super().submit(sequence)

    def _plain_run(self) -> int:
        return 0

    def _plan_decode(self) -> int:
        """Begin a decode pass with the pages that the longest bursts open."""
        self._begin_decode()
        return 1

    def decode(self, passes: int, opened: int, end_ns: int) -> list[Sequence]:
        """Let all decoders get a burst at `end_ns`; return what completes. `opened` pages were set aside."""
        decoders, pool, size = self.decoders, self.pool, self.params.block_size
        self.last_decode_ns = end_ns
        done = decoders.passes = decoders.passes + passes
        streams, finished, gained, accepted = self._streams, [], 0, 0
        for sequence in decoders.members:
            before, end = sequence.tokens, sequence.end_tokens
            burst = next(streams[sequence])
            accepted += burst - 1
            tokens = before + burst
            if tokens >= end:
                tokens = end
                finished.append(sequence)
            gained += tokens - before
            opened -= -(-tokens // size) - -(-before // size)
            sequence.tokens = tokens
            sequence.base = tokens - done
            sequence.forwards += 1
            if tokens < end and tokens // size > sequence.inserted:
                pool.cache(sequence, tokens // size)
        decoders.context_tokens += gained
        self.accepted = accepted
        pool.free += opened
        self._note_second_tokens(end_ns)
        if not self.retracted:
            self.ratio.advance(passes)
        for sequence in finished:
            self._finish(sequence, end_ns)
        return finished

    def _note_second_tokens(self, end_ns: int) -> None:
        """Those whose first token had no page before may get more than that one now."""
        for sequence in self.recent:
            if sequence.second_token_ns is None and sequence.emitted_tokens > 1:
                sequence.second_token_ns = end_ns

    def _finish(self, sequence: Sequence, end_ns: int) -> None:
        self.decoders.remove(sequence)
        self.planned -= sequence.planned
        self.recent.pop(sequence, None)
        sequence.last_token_ns = end_ns
        self._complete(sequence, sequence.tokens, end_ns)

    def add_decoder(self, sequence: Sequence) -> None:
        """Let a sequence whose tokens all have a page decode from the next pass on."""
        self.decoders.add(sequence)
        sequence.joined += 1  # its gap in the next pass is noted as its own
        self.planned += sequence.planned
        self.recent[sequence] = None
        if sequence not in self._streams:
            self._streams[sequence] = self._acceptance.stream(sequence.ordinal)

    def _emit(self, sequence: Sequence, end_ns: int) -> None:
        sequence.forwards += 1
        super()._emit(sequence, end_ns)

    def _complete(self, sequence: Sequence, tokens: int, end_ns: int) -> None:
        self._streams.pop(sequence, None)
        self.zero_gaps += sequence.emitted_tokens - sequence.forwards
        super()._complete(sequence, tokens, end_ns)
