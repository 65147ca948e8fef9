"""Many ranks replayed side by side, request by request not pass by pass (spec 08 section 3, screen T2).

A lane is one rank with the requests that reach it, in their order. Between two admissions all its decoders
advance in whole passes of equal length; who is admitted first computes a prompt. All lanes take one step at a
time: to the next completion or arrival, and through one admission. Times are in ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aisimulate.spica.screen.decode_grid import DecodeGrid

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

_NEVER = np.int64(1 << 40)
_FIRST_WIDTH = 16
_STATE = (
    *("_lane", "_next", "_now", "_context", "_passes", "_decoders"),
    *("_ahead", "_stall", "_finish", "_request", "_waited", "_pass", "_fill", "_began", "_members"),
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests of all lanes, lane after lane: lane l has those from `starts[l]` to before `starts[l + 1]`.

    `prefill_ms` is the time to compute the `tokens` of a prompt that are in no cache, both 0 where the prompt
    was computed elsewhere.
    """

    starts: Ints
    arrivals_ms: Floats
    prompts: Ints
    outputs: Ints
    prefill_ms: Floats
    tokens: Ints


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """One entry per lane. `room`: tokens of prompts that a pass takes; `mixes`: decoders go on beside them.

    `reserve`: the share of an output still to come for which there must be room when a request is admitted.
    `bend`: the part of a prompt's time that grows with the square of its tokens, which its pass evens out.
    """

    engines: Ints
    room: Ints
    max_seqs: Ints
    kv_tokens: Floats
    mixes: Bools
    reserve: Floats
    bend: Floats


@dataclass(frozen=True, slots=True)
class Served:
    """When every request had its first and its last token, NaN for one that was never served.

    `gaps` and `rates` (by lane) are the number of gaps between tokens, and the sum of their tokens per ms.
    `late` (by lane) counts requests that had to wait for room in the cache; `overfull` marks lanes whose
    decoders outgrew it: an engine would have preempted some.
    """

    first_ms: Floats
    last_ms: Floats
    gaps: Floats
    rates: Floats
    late: Ints
    overfull: Bools


def serve(traffic: Traffic, settings: LaneSettings, grid: DecodeGrid) -> Served:
    """Serve all requests of all lanes."""
    lanes = _Lanes(traffic, settings, grid)
    with np.errstate(invalid="ignore", divide="ignore"):
        while lanes.step():
            pass
    return Served(lanes.first_tokens_ms(), lanes.last_ms, lanes.gaps, lanes.rates, lanes.late, lanes.overfull)


class _Lanes:
    """The state of all lanes that have work; `_lane` has their numbers."""

    def __init__(self, traffic: Traffic, settings: LaneSettings, grid: DecodeGrid) -> None:
        self._traffic, self._settings, self._grid = traffic, settings, grid
        count = len(traffic.starts) - 1
        requests = len(traffic.arrivals_ms)
        self.first_ms, self.last_ms = np.full(requests, np.nan), np.full(requests, np.nan)
        self.gaps, self.rates = np.zeros(count), np.zeros(count)
        self.late, self.overfull = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
        self._arrivals = np.append(traffic.arrivals_ms, np.inf)
        self._lane = np.arange(count)
        self._next, self._end = traffic.starts[:-1].copy(), traffic.starts[1:]
        self._now, self._context = np.zeros(count), np.zeros(count)
        self._passes, self._decoders = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self._ahead = np.zeros(count)  # output tokens that decoders still have to come
        self._stall = np.zeros(count)  # time that the next gap of all decoders is longer
        self._finish = np.full((count, _FIRST_WIDTH), _NEVER)
        self._request = np.zeros((count, _FIRST_WIDTH), dtype=np.int64)
        self._waited = np.full(count, -1, dtype=np.int64)
        # The pass of prompts that more may still join: its first request, tokens, beginning and requests.
        self._pass, self._fill = traffic.starts[:-1].copy(), np.zeros(count, dtype=np.int64)
        self._began, self._members = np.full(count, -1.0), np.zeros(count, dtype=np.int64)
        self._pass_of, self._pass_end = np.arange(requests), np.zeros(requests)

    def first_tokens_ms(self) -> Floats:
        """Tell when each request had its first token: at the end of the pass that completed its prompt."""
        return np.where(np.isnan(self.first_ms), self._pass_end[self._pass_of], self.first_ms)

    def step(self) -> bool:
        """Take every lane one step on; return whether any has work left."""
        self._drop_idle()
        if not len(self._lane):
            return False
        lane, settings = self._lane, self._settings
        self._engine = settings.engines[lane]
        column = self._finish.argmin(axis=1)
        rows = np.arange(len(lane))
        due = self._finish[rows, column]
        arrival = np.where(self._next < self._end[lane], self._arrivals[self._next], np.inf)
        open_ = self._may_enter(arrival <= self._now)
        self._advance(due, arrival, open_)
        self._complete(np.flatnonzero(self._passes >= due), column)
        self._admit(np.flatnonzero(self._may_enter(arrival <= self._now)))
        return True

    def _drop_idle(self) -> None:
        """Take lanes out that have served everything, when there are many."""
        done = (self._decoders == 0) & (self._next >= self._end[self._lane])
        if 4 * int(done.sum()) < len(done) and not done.all():
            return
        kept = np.flatnonzero(~done)
        for name in _STATE:
            setattr(self, name, getattr(self, name)[kept])

    def _may_enter(self, arrived: Bools) -> Bools:
        """Tell whose next request has arrived and has a slot and room in the cache."""
        lane, settings, traffic = self._lane, self._settings, self._traffic
        at = np.minimum(self._next, len(traffic.prompts) - 1)
        needed = traffic.prompts[at] + settings.reserve[lane] * (traffic.outputs[at] + self._ahead)
        fits = self._context + needed <= settings.kv_tokens[lane]
        crowded = arrived & ~fits & (self._decoders > 0) & (self._waited != self._next)
        if crowded.any():
            self.late[lane[crowded]] += 1
            self._waited[crowded] = self._next[crowded]
        may: Bools = arrived & (self._decoders < settings.max_seqs[lane]) & (fits | (self._decoders == 0))
        return may

    def _advance(self, due: Ints, arrival: Floats, entering: Bools) -> None:
        """Let decoders go on to the next completion, or to the first pass that ends after an arrival."""
        decoders, now = self._decoders, self._now
        busy = (decoders > 0) & ~entering
        left = np.maximum(due - self._passes, 0)
        mean = self._context / np.maximum(decoders, 1)
        step_ms = self._grid.decode_ms(self._engine, decoders, mean + 0.5 * np.minimum(left, 64))
        until = np.where(arrival > now, np.ceil((arrival - now) / step_ms), np.inf)
        taken = np.where(busy, np.minimum(left, until), 0.0)
        waiting = (decoders == 0) & np.isfinite(arrival)
        self._now = np.where(waiting, np.maximum(now, arrival), now + taken * step_ms)
        self._passes += taken.astype(np.int64)
        tokens = decoders * taken
        self._context += tokens
        self._ahead -= tokens
        self.overfull[self._lane] |= self._context > self._settings.kv_tokens[self._lane]
        self.gaps[self._lane] += tokens
        rates = tokens / step_ms
        stalled = (self._stall > 0) & (taken > 0)
        rates += np.where(stalled, decoders / (step_ms + self._stall) - decoders / step_ms, 0.0)
        self._stall[stalled] = 0.0
        self.rates[self._lane] += np.where(busy, rates, 0.0)
        self._began[waiting | (taken > 0)] = -1.0  # nobody joins a pass that is over

    def _complete(self, rows: Ints, column: Ints) -> None:
        """End one request of each of these rows; its last decoder takes the place."""
        if not len(rows):
            return
        traffic, column = self._traffic, column[rows]
        request, last = self._request[rows, column], self._decoders[rows] - 1
        late_passes = self._passes[rows] - self._finish[rows, column]
        self.last_ms[request] = self._now[rows]
        self._finish[rows, column] = self._finish[rows, last]
        self._request[rows, column] = self._request[rows, last]
        self._finish[rows, last] = _NEVER
        self._decoders[rows] = last
        self._context[rows] -= traffic.prompts[request] + traffic.outputs[request] + late_passes
        self._ahead[rows] += late_passes

    def _admit(self, rows: Ints) -> None:
        """Compute the next prompt of each of these rows."""
        if not len(rows):
            return
        traffic, settings, lane = self._traffic, self._settings, self._lane[rows]
        request, decoders = self._next[rows], self._decoders[rows]
        chunks, cost_ms = self._join_passes(rows, request)
        beside = np.where(settings.mixes[lane] & (decoders > 0), chunks, 0)
        mean = self._context[rows] / np.maximum(decoders, 1)
        step_ms = self._grid.decode_ms(self._engine[rows], decoders, mean)
        self._now[rows] += cost_ms + beside * step_ms
        self._pass_end[self._pass[rows]] = self._now[rows]
        self._passes[rows] += beside
        tokens = decoders * beside
        self.gaps[lane] += tokens
        self.rates[lane] += tokens / (step_ms + cost_ms / np.maximum(chunks, 1))
        self._stall[rows] += np.where(settings.mixes[lane], 0.0, cost_ms)
        self._enter(rows, request, tokens, computed=traffic.tokens[request] > 0)

    def _join_passes(self, rows: Ints, request: Ints) -> tuple[Ints, Floats]:
        """Put prompts into the open passes of their lanes as far as they fit.

        Who completes in the open pass waits for its end, so those before wait for who joins it. Return the
        passes that the prompts begin, and the time they take: a pass is timed by the mean of its prompts.
        """
        traffic, lane = self._traffic, self._lane[rows]
        room, tokens = self._settings.room[lane], traffic.tokens[request]
        cost_ms = traffic.prefill_ms[request]
        joins = self._arrivals[request] <= self._began[rows]
        joins &= self._members[rows] < self._settings.max_seqs[lane]
        joined = np.where(joins, np.minimum(tokens, room - self._fill[rows]), 0)
        per_token_ms = cost_ms / np.maximum(tokens, 1)
        fill, members = self._fill[rows], np.maximum(self._members[rows], 1)
        squares = fill * fill / members + joined * joined - (fill + joined) ** 2 / (members + 1)
        spared_ms = np.where(
            joins, np.minimum(self._settings.bend[lane] * squares, 0.5 * joined * per_token_ms), 0
        )
        self._pass_end[self._pass[rows]] += np.where(joins, joined * per_token_ms - spared_ms, 0.0)
        chunks = -(-(tokens - joined) // room)
        fresh = chunks > 0
        last = tokens - joined - (chunks - 1) * room
        self._fill[rows] = np.where(fresh, last, self._fill[rows] + joined)
        self._members[rows] = np.where(fresh, 1, self._members[rows] + 1)
        self._pass[rows] = np.where(fresh, request, self._pass[rows])
        self._pass_of[request] = self._pass[rows]
        begins = self._now[rows] + cost_ms - last * per_token_ms
        self._began[rows] = np.where(fresh, begins, self._began[rows])
        return chunks, cost_ms - spared_ms

    def _enter(self, rows: Ints, request: Ints, tokens: Ints, computed: Bools) -> None:
        """Let requests decode whose prompts are computed; a pass more where the first token is to come."""
        traffic, decoders = self._traffic, self._decoders[rows]
        if int(decoders.max()) >= self._finish.shape[1]:
            self._widen()
        mean = (self._context[rows] + traffic.prompts[request]) / (decoders + 1)
        first_step_ms = self._grid.decode_ms(self._engine[rows], decoders + 1, mean)
        self.first_ms[request] = np.where(computed, np.nan, self._now[rows] + first_step_ms)
        left = traffic.outputs[request] - computed
        self._finish[rows, decoders] = self._passes[rows] + left
        self._request[rows, decoders] = request
        self._decoders[rows] = decoders + 1
        self._context[rows] += tokens + traffic.prompts[request] + computed
        self._ahead[rows] += left - tokens
        self._next[rows] += 1

    def _widen(self) -> None:
        """Make room for twice as many decoders per lane."""
        blank = np.full_like(self._finish, _NEVER)
        self._finish = np.concatenate([self._finish, blank], axis=1)
        self._request = np.concatenate([self._request, np.zeros_like(self._request)], axis=1)
