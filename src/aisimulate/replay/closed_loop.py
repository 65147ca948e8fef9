"""The event loop of a plain closed loop: vLLM workers that nobody watches, and no think time.

What happens on one worker reaches others only where a request ends and another one takes its place. So the
workers take turns: the one on which the next request may end goes on, as far as none can end elsewhere. What
happens is the same as on a shared clock (`Fleet`), and in the same order.
"""

from __future__ import annotations

from bisect import insort
from itertools import islice
from typing import TYPE_CHECKING, cast

from aisimulate.engine.loop_lane import LoopLane
from aisimulate.engine.worker import RankWorker
from aisimulate.router.round_robin import RoundRobin
from aisimulate.workload.driver import SessionDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.replay.fleet import Placement
    from aisimulate.workload.drivers import Driver

_NEVER = 1 << 62


def closed_loop(workers: list[Worker], driver: Driver, placement: Placement) -> ClosedLoop | None:
    """Prepare to serve this traffic on these workers, if it is a plain closed loop that can take turns."""
    if not isinstance(driver, SessionDriver) or not driver.is_closed_loop:
        return None
    extremes = driver.extremes
    if extremes is None:
        return None
    if type(placement) is not RoundRobin or any(type(worker) is not RankWorker for worker in workers):
        return None
    plain = cast("list[RankWorker]", workers)
    ranks = [worker.ranks[0] for worker in plain]
    if not all(_is_plain(rank, *extremes) for rank in ranks):
        return None
    if len(workers) > 1 and not all(rank.timer.rises and not rank.fused for rank in ranks):
        return None  # somebody who arrives later might make somebody end earlier
    for rank in ranks:
        rank.expect(*extremes[:2])
        rank.pool.stride = driver.stride
    return ClosedLoop(plain, driver, placement)


def _is_plain(rank: RankScheduler, longest_prompt: int, least_output: int, most_output: int) -> bool:
    """Whether every pass takes time: none is there only to refuse a request, which this one never does."""
    params, timer, most_tokens = rank.params, rank.timer, longest_prompt + most_output
    return (
        params.enable_chunked_prefill
        and least_output > 0
        and most_tokens <= params.total_kv_tokens
        and (params.max_model_len is None or most_tokens <= params.max_model_len)
        and min(timer.prefill_ns(1, 1, 0), timer.decode_ns(1, 1)) > 0
    )


class ClosedLoop:
    """Serves all traffic; after `run`, `end_ns` is the last end of a request.

    `tidy_up` is called now and then, before requests are made that take the place of others.
    """

    def __init__(self, workers: list[RankWorker], driver: SessionDriver, placement: RoundRobin) -> None:
        self._lanes = [LoopLane(worker) for worker in workers]
        self._number_bits = len(workers).bit_length()
        self._driver = driver
        self._placement = placement
        self.end_ns = 0

    def run(self, tidy_up: Callable[[], None]) -> None:
        """Run to the end of the traffic, or of the clock."""
        lanes, driver, turns = self._lanes, self._driver, self._placement.rotation
        bits = self._number_bits
        number = (1 << bits) - 1
        # When somebody may end on a worker and, in the low bits, its number, in order. What is not the bound
        # of the worker any more is passed over.
        events: list[int] = []
        self._begin(events)
        events.append(_NEVER << bits)
        waiting, is_told = driver.waiting_requests(tidy_up), driver.is_told
        while (now_ns := (event := events.pop(0)) >> bits) < _NEVER:
            index = event & number
            lane = lanes[index]
            if lane.bound_ns != now_ns:
                continue
            if ended := lane.end():
                self.end_ns = now_ns
                arriving = islice(waiting, len(ended))
                for sequence in arriving:
                    sequence.arrival_ns = now_ns
                    other = sequence.worker = next(turns)
                    sequence.rank = 0
                    if lanes[other].take_in(sequence):
                        insort(events, lanes[other].bound_ns << bits | other)
                if is_told:
                    driver.took_places(now_ns)
            bound_ns = lane.go_on(events[0] >> bits)
            if bound_ns < _NEVER:
                insort(events, bound_ns << bits | index)
        for lane in lanes:
            lane.close()

    def _begin(self, events: list[int]) -> None:
        """Let in those who need not wait for an end: they come at 0."""
        lanes = self._lanes
        for sequence in self._driver.pop_ready(0):
            index, sequence.rank = self._placement.place(sequence)
            sequence.worker = index
            if lanes[index].take_in(sequence):
                events.append(lanes[index].bound_ns << self._number_bits | index)
        events.sort()
