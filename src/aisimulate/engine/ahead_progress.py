"""How far the passes of a worker have come that plans one pass ahead, and what its decoders have by then.

Plan number 1 of those in flight was made when the pass in flight began and is known to those outside when
that has ended, as is what it did to the cache; plan n + 1 was made when planned pass n - 1 ended and is known
when pass n has.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from aisimulate.engine.ahead_group import AheadGroup
from aisimulate.engine.ahead_worker import AheadWorker
from aisimulate.engine.decoding_view import DecodingView, UnevenDecodingView
from aisimulate.engine.sglang_ahead import AheadSglangScheduler
from aisimulate.engine.sglang_ahead_drafts import AheadSglangDrafts
from aisimulate.engine.speculative import SpeculativeScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.sglang_scheduler import SglangScheduler


def plans_known_by(worker: object) -> Callable[[int], int] | None:
    """Make the function that counts the plans in flight known by some instant; None where none are ahead."""
    if isinstance(worker, AheadWorker):
        return lambda now_ns: _known_of_one(worker, now_ns)
    if isinstance(worker, AheadGroup):
        return lambda now_ns: _known_of_group(worker, now_ns)
    return None


def plan_known_at(worker: Any) -> Callable[[int], int]:  # noqa: ANN401 - an AheadWorker or an AheadGroup
    """Make the function that tells when so many plans are known, which `plans_known_by` counted."""
    if isinstance(worker, AheadWorker):
        return lambda plans: worker._start_ns + _run_of_one(worker, plans - 1)
    return lambda plans: int(worker._start_ns + (worker._totals[plans - 2] if plans > 1 else 0))


def _run_of_one(worker: AheadWorker[Any], passes: int) -> int:
    rank = worker._rank
    return worker._timer.run_ns(rank.run_batch, rank.run_context, passes) if passes else 0


def _known_of_one(worker: AheadWorker[Any], now_ns: int) -> int:
    elapsed_ns = now_ns - worker._start_ns
    if not worker.busy or elapsed_ns < 0:
        return 0
    if not worker._ended:
        return 1
    rank = worker._rank
    run = rank.run_batch, rank.run_context
    passes, total_ns = worker._timer.passes_until(*run, worker._ended, elapsed_ns + 1)
    return passes + (total_ns <= elapsed_ns)


def _known_of_group(worker: AheadGroup[Any], now_ns: int) -> int:
    elapsed_ns, totals, ended = now_ns - worker._start_ns, worker._totals, worker._ended
    if not worker.busy or elapsed_ns < 0:
        return 0
    while len(worker._durations) < ended and totals[-1] <= elapsed_ns:
        worker._price_more()
    return 1 + bisect_right(totals, elapsed_ns, 0, min(ended, len(totals))) if ended else 1


class AheadDecodingView(DecodingView):
    """The decoders of a rank that books a pass when it begins: what it brings is not there before its end."""

    __slots__ = ("_known", "_worker")

    def __init__(self, rank: Any, worker: Any, decays: bool) -> None:  # noqa: ANN401
        super().__init__(rank, worker, decays)
        self._worker = worker
        known = plans_known_by(worker)
        assert known is not None
        self._known = known

    def output_blocks(self, now_ns: int) -> float:
        """Count the blocks that the decoders filled with output by `now_ns`, which end then or later."""
        rank: Any = self._rank
        worker, known = self._worker, self._known(now_ns)
        passes, blocks = rank.decoders.passes, 0.0
        is_coming = not known and (worker.busy or worker.flight_ns is not None)
        if known:
            passes += known - 1
        for sequence in rank.decoders.members:
            generated = passes + sequence.base - sequence.input_tokens
            if is_coming:
                generated -= self._coming(sequence)
            blocks += self._weighed(sequence, generated)
        for sequence in rank.departing:
            generated = sequence.end_tokens - sequence.input_tokens
            blocks += self._weighed(sequence, generated - max(1, self._coming(sequence)))
        return blocks

    def _weighed(self, sequence: Sequence, generated: int) -> float:
        """Give the blocks of so many generated tokens, as far as they count."""
        if generated <= 0:
            return 0.0
        weight = 1 - generated / sequence.output_tokens if self._decays else 1
        return generated // self._block_size * weight

    def _coming(self, sequence: Sequence) -> int:
        """Count the tokens that a decoder gets at the end of the pass in flight."""
        rank: Any = self._rank
        worker = self._worker
        if not isinstance(rank, AheadSglangScheduler):
            return int(sequence not in rank.stalled)
        end_ns = worker._start_ns if worker.busy else worker.flight_ns
        if rank.last_decode_ns != end_ns:
            return int(sequence in rank.recent and sequence.last_token_ns == end_ns)
        if isinstance(rank, AheadSglangDrafts):
            return sequence.tokens - rank.before.get(sequence, sequence.tokens)
        return 1


def decoding_view_of(
    rank: RankScheduler | SglangScheduler, worker: Worker, decays: bool
) -> DecodingView | UnevenDecodingView:
    """Make the view of the decoders of a rank of `worker`."""
    is_ahead = isinstance(worker, AheadWorker | AheadGroup)
    if isinstance(rank, SpeculativeScheduler):
        # Drafts that are planned ahead are known only when they were verified.
        return DecodingView(rank, worker, decays) if is_ahead else UnevenDecodingView(rank, decays)
    if is_ahead:
        return AheadDecodingView(rank, worker, decays)
    return DecodingView(rank, worker, decays)
