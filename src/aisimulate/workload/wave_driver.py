"""A closed loop that ends as soon as it has settled (spec 08 section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.core.units import NS_PER_MS
from aisimulate.engine.sequence import COMPLETED
from aisimulate.workload.driver import SessionDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aisimulate.core.traffic import Workload
    from aisimulate.engine.sequence import Sequence

# Two waves agree when the time of a request, and that of a token, which wanders longest, differ by no more.
_E2E_AGREEMENT, _TPOT_AGREEMENT = 0.005, 0.01
_COMPARED_WAVES = 4
# Of a wave, who may still be on the way when it is judged; it is looked at again after as many.
_STRAGGLERS = 0.05
_LEAST_LEFT_WAVES = 1.0  # with less to come there is nothing to save


@dataclass(frozen=True, slots=True)
class Wave:
    """Means over the requests of one wave: those issued while each request in flight is replaced once."""

    e2e_ms: float
    ttft_ms: float
    tpot_ms: float

    def agrees(self, other: Wave) -> bool:
        """Whether the two differ by little."""
        return (
            abs(self.e2e_ms - other.e2e_ms) <= _E2E_AGREEMENT * other.e2e_ms
            and abs(self.tpot_ms - other.tpot_ms) <= _TPOT_AGREEMENT * other.tpot_ms
        )


@dataclass(frozen=True, slots=True)
class Waves:
    """Closed-loop waves that are over: `mean` is that of the last two, `cap` the requests in flight.

    `done` have completed, the last at `end_ns`, the first of the last wave `spread_ns` before; `left` of the
    `total` requests were to come.
    """

    mean: Wave
    cap: int
    done: list[Sequence]
    end_ns: int
    spread_ns: int
    total: int
    left: int


class Settled(Exception):
    """Ends a replay: all waves that follow would be like the last two."""

    def __init__(self, waves: Waves) -> None:
        super().__init__()
        self.waves = waves


class WaveDriver(SessionDriver):
    """Feeds single requests to a replay with a cap, and raises `Settled` when waves in a row agree."""

    is_told = looks_back = True

    def __init__(self, workload: Workload, block_tokens: int) -> None:
        super().__init__(workload, block_tokens)
        assert workload.concurrency is not None
        self._in_flight_cap = workload.concurrency
        self._patience = max(1, int(_STRAGGLERS * workload.concurrency))
        self._number = 0  # of waves that are over
        self._waves: list[Wave] = []  # the last of them, the latest first
        self._on_the_way: list[Sequence] = []  # of the next wave, when it was looked at last; empty: never
        self._look_at = 2 * workload.concurrency  # when the wave after it is on the way, one can be over

    def on_terminal(self, sequence: Sequence, now_ns: int) -> None:
        """Take note that a request ended at `now_ns`. Raises Settled."""
        super().on_terminal(sequence, now_ns)
        if self._waiting >= self._look_at:
            self._look(now_ns)

    def waiting_requests(self, tidy_up: Callable[[], None]) -> Iterator[Sequence]:
        """Dispatch the requests that wait for a slot one by one."""
        for sequence in super().waiting_requests(tidy_up):
            self._waiting += 1
            yield sequence

    def took_places(self, now_ns: int) -> None:
        """Hear that others took the places of all who ended at `now_ns`. Raises Settled."""
        while self._waiting >= self._look_at:
            self._look(now_ns)

    def replace(self, now_ns: int) -> Sequence | None:
        """Dispatch the request that takes the place of one that ended now, if that is all. Raises Settled."""
        sequence = super().replace(now_ns)
        if self._waiting >= self._look_at:
            self._look(now_ns)
        return sequence

    def _look(self, now_ns: int) -> None:
        """See whether a wave is over, and whether waves have settled with it. Raises Settled."""
        cap, first = self._in_flight_cap, self._number * self._in_flight_cap
        members = self._on_the_way or self.sequences[first : first + cap]
        self._on_the_way = [s for s in members if not _is_done(s, now_ns)]
        self._look_at += self._patience
        if len(self._on_the_way) > min(self._patience, cap - 1) or not now_ns:
            return  # too many are left, of a small wave all, or no time has passed
        done = [s for s in self.sequences[first : first + cap] if _is_done(s, now_ns)]
        self._waves = [mean_wave(done), *self._waves[: _COMPARED_WAVES - 1]]
        self._number, self._on_the_way = self._number + 1, []
        self._look_at = (self._number + 2) * cap
        left = self._session_count - self._number * cap
        if have_settled(self._waves) and left >= _LEAST_LEFT_WAVES * cap:
            ends_ns = [s.terminal_ns or 0 for s in done]
            earlier = [s for s in self.sequences[:first] if s.status == COMPLETED]
            spread_ns = max(ends_ns) - min(ends_ns)
            done = [*earlier, *done]
            mean = _between(*self._waves[:2])
            raise Settled(Waves(mean, cap, done, max(ends_ns), spread_ns, self._session_count, left))


def _is_done(sequence: Sequence, now_ns: int) -> bool:
    return sequence.status == COMPLETED and (sequence.terminal_ns or 0) <= now_ns


def mean_wave(done: list[Sequence]) -> Wave:
    """Average requests that completed."""
    count = len(done) * NS_PER_MS
    e2e_ns = sum((s.last_token_ns or 0) - s.arrival_ns for s in done)
    ttft_ns = sum((s.first_token_ns or 0) - s.arrival_ns for s in done)
    tpot_ns = sum(
        ((s.last_token_ns or 0) - (s.first_token_ns or 0)) / max(1, s.tokens - s.input_tokens - 1)
        for s in done
    )
    return Wave(e2e_ns / count, ttft_ns / count, tpot_ns / count)


def have_settled(waves: list[Wave]) -> bool:
    """Whether waves, the latest first, stay alike: two in a row or, where they alternate, two and two."""
    if len(waves) > 1 and waves[0].agrees(waves[1]):
        return True
    if len(waves) < _COMPARED_WAVES:
        return False
    return _between(*waves[:2]).agrees(_between(*waves[2:]))


def _between(first: Wave, second: Wave) -> Wave:
    return Wave(
        (first.e2e_ms + second.e2e_ms) / 2,
        (first.ttft_ms + second.ttft_ms) / 2,
        (first.tpot_ms + second.tpot_ms) / 2,
    )
