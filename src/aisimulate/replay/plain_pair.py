"""The event loop of a plain pair of pools: vLLM ranks that nobody watches, under traffic known beforehand.

Prompts pass over in no time and nobody is refused, so nearly every instant is one of three things: a prefill
worker ends a pass, a decode worker gets to the boundary that its next prompt waited for, or requests arrive.
Each is done in one go. Where two of them meet, or something has to wait, the rules of `DisaggFleet` are
followed step by step; the state is the same.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, cast

from aisimulate.engine.decode_rank import DecodeRank
from aisimulate.engine.decode_worker import DecodeWorker
from aisimulate.engine.handoff import Handoff
from aisimulate.engine.prefill_rank import PrefillRank
from aisimulate.engine.prefill_worker import PrefillWorker
from aisimulate.replay.disagg_fleet import DisaggFleet
from aisimulate.replay.fleet import NEVER
from aisimulate.router.pool_round_robin import PoolRoundRobin
from aisimulate.workload.driver import SessionDriver

if TYPE_CHECKING:
    from collections.abc import Sequence as ListOf

    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.transfer import TransferTime
    from aisimulate.replay.disagg_fleet import Destination, Source
    from aisimulate.replay.fleet import Placement
    from aisimulate.workload.drivers import Driver

_PREFILL, _BOTH = ("prefill",), ("prefill", "decode")


def is_plain_pair(
    pools: tuple[list[Worker], list[Worker]],
    placements: tuple[Placement, Placement],
    driver: Driver,
    transfer: TransferTime,
    limit_ns: int | None,
) -> bool:
    """Whether `PlainPairFleet` may serve this traffic on these pools."""
    if not isinstance(driver, SessionDriver) or not driver.is_independent:
        return False
    if limit_ns is not None or transfer.equal_delay_ns != 0:
        return False
    if any(type(placement) is not PoolRoundRobin for placement in placements):
        return False
    workers, extremes = [worker for pool in pools for worker in pool], driver.extremes
    if extremes is None:
        return False
    return all(_is_plain(worker, *extremes[:2]) for worker in workers) and _are_alike(workers)


def _is_plain(worker: Worker, longest_prompt: int, least_output: int) -> bool:
    """Whether a worker takes every request as it comes."""
    if type(worker) not in (PrefillWorker, DecodeWorker):
        return False
    rank = cast("PrefillWorker | DecodeWorker", worker).ranks[0]
    if type(rank) not in (PrefillRank, DecodeRank) or rank.params.max_model_len is not None:
        return False
    rank.expect(longest_prompt, least_output)
    return longest_prompt <= rank.params.total_kv_tokens and least_output > 0


def _are_alike(workers: list[Worker]) -> bool:
    """Whether a request is prepared in the same way for each of these plain workers."""
    all_params = [cast("PrefillWorker", worker).ranks[0].params for worker in workers]
    return len({(params.block_size, params.enable_prefix_caching) for params in all_params}) == 1


class PlainPairFleet(DisaggFleet):
    """Serves all traffic on a prefill and a decode pool for which `is_plain_pair` holds."""

    def __init__(
        self,
        pools: tuple[list[Worker], list[Worker]],
        ranks: tuple[ListOf[ListOf[Source]], ListOf[ListOf[Destination]]],
        placements: tuple[Placement, Placement],
        driver: Driver,
        transfer: TransferTime,
        limit_ns: int | None = None,
    ) -> None:
        super().__init__(pools, ranks, placements, driver, transfer, limit_ns)
        self._prefills = cast("list[PrefillWorker]", pools[0])
        self._decodes = cast("list[DecodeWorker]", pools[1])
        self._decode_ranks = cast("list[DecodeRank]", [ranks_of[0] for ranks_of in ranks[1]])
        self._turns = [cast("PoolRoundRobin", placement).rotation for placement in placements]
        self._events: list[tuple[int, int]] = []  # ends of passes with their worker, in order
        self._has_stepped = False
        for worker in self._prefills:
            worker.is_unwatched = True

    def _run_clock(self) -> bool:
        """Run event by event; return whether the limit ended the run: there is none."""
        ends, events, first_decode, decodes = self._ends, self._events, self._first_decode, self._decodes
        self._look_for_arrivals()
        while True:
            if not events or events[0][0] >= self._arrival_ns:
                if not self._go_ahead():
                    return False
            else:
                now_ns, index = events.pop(0)
                self.end_ns = now_ns
                ends[index] = NEVER
                if events and events[0][0] == now_ns:
                    self._end_together(index, now_ns)
                elif index < first_decode:
                    self._end_prompts(index, now_ns)
                elif decodes[index - first_decode].is_over and not self._deferred:
                    self._take_in(index, now_ns)
                else:
                    self._end_decoding(index, now_ns)
            if self._idle:
                self._step(self.end_ns)
                self._settle_rounds(self.end_ns, self.end_ns, self._idle)
            if self._has_stepped:
                self._look_again()

    def _go_ahead(self) -> bool:
        """Go on where no pass ends before the next arrival; return whether anything is left to go on with."""
        now_ns, events = self._arrival_ns, self._events
        if now_ns >= NEVER:
            now_ns = self._unblock()
            if now_ns >= NEVER:
                return False
        elif not events or events[0][0] > now_ns:
            self._let_arrive(now_ns)
            return True
        else:
            now_ns = self._next_exact_ns()
        self._settle_all(now_ns)
        return True

    # Prefill workers --------------------------------------------------------------------------------------

    def _let_arrive(self, now_ns: int) -> None:
        """Queue requests that arrive on prefill workers, and begin a pass where none is in flight."""
        self.end_ns = now_ns
        prefills, turns, idle = self._prefills, self._turns[0], set()
        for request in self._driver.pop_ready(now_ns):
            handoff = Handoff(request)
            source = handoff.source
            index = source.worker = next(turns)
            source.rank = 0
            handoff.pools = _PREFILL
            worker = prefills[index]
            worker.submit(source)
            if not worker.busy:  # a row of chunks in flight uses up the budget of each pass
                idle.add(index)
        self._look_for_arrivals()
        for index in sorted(idle):
            self._begin(index, now_ns)

    def _begin(self, index: int, now_ns: int) -> None:
        """Begin a pass of a prefill worker, if there is anything to do."""
        worker = self._prefills[index]
        if worker.start(now_ns):
            self._let_run(index, worker.end_ns, now_ns)

    def _let_run(self, index: int, end_ns: int, now_ns: int) -> None:
        """Come back to a prefill worker when its passes end."""
        self._ends[index] = end_ns
        if end_ns > now_ns:
            insort(self._events, (end_ns, index))
        else:
            self._step(now_ns)
            self._finish(index, now_ns)
            self._idle.append(index)

    def _end_prompts(self, index: int, now_ns: int) -> None:
        """End the pass of a prefill worker, hand its prompts on, and begin its next pass."""
        worker = self._prefills[index]
        if sources := worker.finish():
            self._hand_on(sources, now_ns)
        if worker.start(now_ns):
            self._let_run(index, worker.end_ns, now_ns)

    def _end_together(self, index: int, now_ns: int) -> None:
        """End what ends together with a pass of worker `index`, the first of them."""
        ends, events, indices = self._ends, self._events, [index]
        while events and events[0][0] == now_ns:
            _, index = events.pop(0)
            ends[index] = NEVER
            indices.append(index)
        if index >= self._first_decode:
            for index in indices:
                ends[index] = now_ns
            self._settle_all(now_ns)
            return
        self._hand_on([source for index in indices for source in self._prefills[index].finish()], now_ns)
        for index in indices:
            self._begin(index, now_ns)

    def _hand_on(self, sources: ListOf[Sequence], now_ns: int) -> None:
        """Do what follows from the ends of prompts.

        Each is queued on the next decode worker, which gets to its first boundary from now on.
        """
        decodes, since, turns, first_decode = self._decodes, self._since, self._turns[1], self._first_decode
        if len(sources) > len(decodes) or self._deferred:  # some may meet on a decode worker
            self._step(now_ns)
            for source in sources:
                self._end_prompt(source, now_ns)
            self._act()
            return
        for source in sources:
            if source.status is not None:
                self._step(now_ns)
                self._end_prompt(source, now_ns)
                continue
            handoff = source.handoff
            handoff.held_ns = now_ns
            handoff.pools = _BOTH
            number = next(turns)
            worker, index = decodes[number], first_decode + number
            since_ns = since[index]
            if since_ns >= NEVER and not worker.is_over:
                self._queue_late(handoff, number, now_ns)
                continue
            if since_ns < NEVER:
                since[index] = NEVER
                worker.end_ns = worker.advance(since_ns, now_ns)
            # `DecodeRank.accept`, of what the source knows: nothing can be wrong with the request.
            rank, request = self._decode_ranks[number], handoff.request
            request.worker, request.rank = number, 0
            request.keys, request.tail_start = source.keys, source.tail_start
            rank.pool.stride = request.stride
            rank.pending.append(handoff)
            handoff.order = rank.accepted
            rank.accepted += 1
            if since_ns < NEVER:
                self._wait(index, worker, now_ns)

    def _queue_late(self, handoff: Handoff, number: int, now_ns: int) -> None:
        """Queue a destination on a decode worker that keeps to the clock: some wait for blocks there."""
        self._step(now_ns)
        handoff.request.worker, handoff.request.rank = number, 0
        self._queue_destination(handoff)
        self._act()

    def _end_prompt(self, source: Sequence, now_ns: int) -> None:
        """Do what follows from the end of a prompt, as `DisaggFleet` does."""
        handoff = source.handoff
        if source.status is None:
            handoff.held_ns = now_ns
            self._reserve(handoff)
        else:
            self._end_early(handoff, source.status, source.reason)

    # Decode workers ---------------------------------------------------------------------------------------

    def _wait(self, index: int, worker: DecodeWorker, now_ns: int) -> None:
        """Let what came up on a decode worker wait for the boundary that it got to."""
        end_ns = worker.end_ns
        if end_ns > now_ns:
            worker.busy = worker.is_over = worker.exact = True
            self._ends[index] = end_ns
            insort(self._events, (end_ns, index))
        else:
            self._take_in(index, now_ns)

    def _end_decoding(self, index: int, now_ns: int) -> None:
        """Let a decode worker that keeps to the clock be between passes."""
        worker = self._decodes[index - self._first_decode]
        self._step(now_ns)
        if worker.exact:
            self._idle.append(index)
            self._finish(index, now_ns)
            self._act()
        else:
            worker.settle()
            self._ends[index] = worker.end_ns

    def _take_in(self, index: int, now_ns: int) -> None:
        """Let a decode worker that is between passes take in what waits for it."""
        number = index - self._first_decode
        worker, rank = self._decodes[number], self._decode_ranks[number]
        worker.busy = worker.is_over = False
        while rank.pending and (handoff := rank.receive()) is not None:
            handoff.reserved_ns = handoff.activated_ns = now_ns
            source_index = handoff.source.worker
            source_worker = self._prefills[source_index]
            if source_worker.busy:
                handoff.released_ns = now_ns
                source_worker.due.append(handoff)
            else:
                source_worker.give_back((handoff,), now_ns)
                if source_worker.has_work:
                    self._idle.append(source_index)
        if rank.pending:
            self._idle.append(index)
        else:
            self._since[index] = now_ns

    # Step by step -----------------------------------------------------------------------------------------

    def _step(self, now_ns: int) -> None:
        """Be about to do things as `DisaggFleet` does."""
        self._now_ns = self._boundary_ns = now_ns
        self._has_stepped = True

    def _settle_all(self, now_ns: int) -> None:
        """Let everything happen that happens at `now_ns`."""
        self._settle_instant(now_ns)
        self._idle = []
        self._has_stepped = True

    def _look_again(self) -> None:
        """Look when passes end, after things were done as `DisaggFleet` does."""
        self._events[:] = sorted((end_ns, index) for index, end_ns in enumerate(self._ends) if end_ns < NEVER)
        self._idle = []
        self._has_stepped = False

    def _submit(self, handoff: Handoff) -> None:
        source = handoff.source
        index, source.rank = self._placement.place(source)
        source.worker = index
        handoff.pools = _PREFILL
        worker = self._prefills[index]
        worker.submit(source)
        if not worker.busy:  # a row of chunks in flight uses up the budget of each pass
            self._idle.append(index)

    def _release(self, handoff: Handoff) -> None:
        index = handoff.source.worker
        worker = self._prefills[index]
        if worker.busy:
            handoff.released_ns = self._boundary_ns
            worker.due.append(handoff)
        else:
            worker.give_back((handoff,), self._now_ns)
            self._idle.append(index)
