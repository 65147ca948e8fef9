"""When a request got its n-th token, from what a worker logged of its passes.

A decoder gets a token in every pass, so the passes between two of its tokens are those between two counts of
passes, and the gap log of the worker has how long each of them was. Times of first, second and last tokens
are known without that; nobody else is asked for but by front ends that gather tokens (`replay/client.py`).
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

from aisimulate.engine.ahead_group import AheadSglangGroup
from aisimulate.engine.gap_log import PASS_WIDTH, RUN_WIDTH, rows
from aisimulate.engine.polling import PollingWorker
from aisimulate.engine.sglang_scheduler import SglangScheduler
from aisimulate.engine.sglang_worker import SglangGroup
from aisimulate.engine.watch import WatchedWorker

if TYPE_CHECKING:
    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.sequence import Sequence


_NEVER = 1 << 62


class LoggedRank(Protocol):
    """What is needed of a rank: the passes up to those that decoders were taken out of, and own gaps."""

    spans: list[tuple[Sequence, int, int]]
    singles: list[tuple[int, Sequence]]


class _PassTimes:
    """Durations of the passes of a gap log, by the count of passes at their start."""

    def __init__(self, log: GapLog) -> None:
        self._timer = log.timer
        segments: list[tuple[Any, ...]] = [
            (first, passes, batch, context)
            for batch, context, passes, _, first in (
                *rows(log.packed_runs, RUN_WIDTH),
                *rows(log.runs, RUN_WIDTH),
            )
        ]
        segments += [
            (first, 1, 0, [0, duration_ns])
            for duration_ns, _, first in (
                *rows(log.packed_passes, PASS_WIDTH),
                *rows(log.passes, PASS_WIDTH),
            )
        ]
        segments += [
            (first, len(durations_ns), 0, [*accumulate(durations_ns, initial=0)])
            for durations_ns, _, first in log.series
        ]
        segments.sort(key=lambda segment: segment[0])
        self._segments = segments
        self._firsts = [segment[0] for segment in segments]
        totals = (self._part_ns(segment, segment[1]) for segment in segments)
        self._before_ns = [*accumulate(totals, initial=0)]

    def _part_ns(self, segment: tuple[Any, ...], passes: int) -> int:
        """Sum up the first passes of a segment."""
        _, count, batch, what = segment
        passes = min(passes, count)
        if not batch:
            return int(what[passes])
        return self._timer.run_ns(batch, what, passes) if passes else 0

    def _until_ns(self, count: int) -> int:
        """Sum up the logged passes before pass number `count`."""
        index = bisect_right(self._firsts, count) - 1
        if index < 0:
            return 0
        segment = self._segments[index]
        return self._before_ns[index] + self._part_ns(segment, count - segment[0])

    def between_ns(self, first: int, last: int) -> int:
        """Sum up the passes from number `first` on and before `last`, all of which are logged."""
        return self._until_ns(last) - self._until_ns(first)


class TokenTimes:
    """When the sequences of one rank, which have completed, got their tokens. Without drafts only."""

    def __init__(self, rank: LoggedRank, log: GapLog) -> None:
        self._passes = _PassTimes(log)
        self._is_sglang = isinstance(rank, SglangScheduler)
        self._spans: dict[Sequence, list[tuple[int, int]]] = {}
        for sequence, first, last in rank.spans:
            self._spans.setdefault(sequence, []).append((first, last))
        self._singles: dict[Sequence, list[int]] = {}
        for gap_ns, sequence in rank.singles:
            if sequence in self._spans or len(sequence.admissions) > 1:
                self._singles.setdefault(sequence, []).append(gap_ns)

    def token_ns(self, sequence: Sequence, number: int) -> int:
        """Give the instant of token `number` (from 1) of a completed sequence, or of its last one."""
        first_ns, last_ns = sequence.first_token_ns, sequence.last_token_ns
        assert first_ns is not None
        assert last_ns is not None
        if number >= sequence.emitted_tokens:
            return last_ns
        if number <= 1:
            return first_ns
        if number == 2 and sequence.second_token_ns is not None:
            return sequence.second_token_ns
        if self._is_sglang and len(sequence.admissions) > 1:
            return self._after_retractions_ns(sequence, number, first_ns, last_ns)
        if sequence in self._spans:
            return self._after_losses_ns(sequence, number, first_ns)
        # The pass counts at which it had that many tokens, and all of them.
        reached = sequence.input_tokens + number - sequence.base
        return last_ns - self._passes.between_ns(reached, sequence.tokens - sequence.base)

    def _after_losses_ns(self, sequence: Sequence, number: int, now_ns: int) -> int:
        """Go from one interval of passes to the next; a gap of its own leads there."""
        tokens = 1
        losses = zip(self._spans[sequence], self._singles[sequence], strict=True)
        for (first, last), gap_ns in losses:
            if number <= tokens + last - first:
                return now_ns + self._passes.between_ns(first, first + number - tokens)
            now_ns += self._passes.between_ns(first, last) + gap_ns
            tokens += last - first + 1
            if tokens == number:
                return now_ns
        joined = sequence.joined
        return now_ns + self._passes.between_ns(joined, joined + number - tokens)

    def _after_retractions_ns(self, sequence: Sequence, number: int, first_ns: int, last_ns: int) -> int:
        """Go from one stay among the decoders to the next; a first token after each, and a gap, are its own.

        A stay may end before it decodes, and begin without a token of its own where there was no page for it.
        The latter leaves a gap too few: then tokens are taken as evenly spread.
        """
        gaps_ns = iter(self._singles.get(sequence, ()))
        stays = [*self._spans.get(sequence, ()), (sequence.joined, _NEVER)]
        now_ns, tokens = first_ns, 1
        for stay, (first, last) in enumerate(stays):
            for _ in range((stay > 0) + (first <= last)):
                now_ns += next(gaps_ns, _NEVER)
                tokens += 1
                if tokens == number and now_ns < _NEVER:
                    return now_ns
            if first <= last and number <= tokens + last - first and now_ns < _NEVER:
                return now_ns + self._passes.between_ns(first, first + number - tokens)
            if first < last < _NEVER:
                now_ns += self._passes.between_ns(first, last)
                tokens += last - first
        return first_ns + (last_ns - first_ns) * (number - 1) // (sequence.emitted_tokens - 1)


def token_times_of(worker: Worker) -> list[TokenTimes]:
    """Make the token times of a worker's ranks, once its log is closed."""
    inner: Any = worker._inner if isinstance(worker, WatchedWorker | PollingWorker) else worker
    ranks = inner.ranks
    logs = inner._logs if isinstance(inner, SglangGroup | AheadSglangGroup) else [inner.gap_log] * len(ranks)
    return [TokenTimes(rank, log) for rank, log in zip(ranks, logs, strict=True)]
