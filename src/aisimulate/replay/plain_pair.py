"""The event loop of a plain pair of pools: vLLM ranks that nobody watches, under traffic known beforehand.

Prompts pass over in no time and nobody is refused, so nearly every instant is one of three things: a prefill
worker ends a pass, a decode worker gets to the boundary that its next prompt waited for, or requests arrive.
Each is done in one go. Where two of them meet, or something has to wait, the rules of `DisaggFleet` are
followed step by step; the state is the same.
"""

from __future__ import annotations

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
    if not isinstance(driver, SessionDriver) or not driver.is_independent or driver.extremes is None:
        return False
    if limit_ns is not None or transfer.equal_delay_ns != 0:
        return False
    if any(type(placement) is not PoolRoundRobin for placement in placements):
        return False
    workers = [worker for pool in pools for worker in pool]
    return all(_is_plain(worker, *driver.extremes) for worker in workers) and _are_alike(workers)


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
        self._prefill_ranks = cast("list[PrefillRank]", [ranks_of[0] for ranks_of in ranks[0]])
        self._decode_ranks = cast("list[DecodeRank]", [ranks_of[0] for ranks_of in ranks[1]])
        self._arrivals = cast("PoolRoundRobin", placements[0]).rotation
        self._turns = cast("PoolRoundRobin", placements[1]).rotation
        for worker in self._prefills:
            worker.is_unwatched = True

    def _run_clock(self) -> bool:
        """Run event by event; return whether the limit ended the run: there is none."""
        ends, workers, first_decode = self._ends, self._workers, self._first_decode
        self._look_for_arrivals()
        while True:
            end_ns = min(ends)
            if end_ns >= self._arrival_ns:
                if not self._go_ahead(end_ns):
                    return False
                continue
            index = ends.index(end_ns)
            if index < first_decode:
                ends[index] = NEVER
                if min(ends) > end_ns:
                    self._end_prompts(index, end_ns)
                else:
                    self._end_together(index, end_ns)
            elif not (worker := workers[index]).exact:
                worker.settle()
                ends[index] = worker.end_ns
            elif ends.count(end_ns) > 1:
                self._settle_instant(end_ns)
            else:
                ends[index] = NEVER
                self._end_decoding(index, end_ns)
            if self._idle:
                self._idle = []

    def _go_ahead(self, end_ns: int) -> bool:
        """Go on where no pass ends before the next arrival; return whether anything is left to go on with."""
        now_ns = self._arrival_ns
        if now_ns >= NEVER:
            now_ns = self._unblock()
            if now_ns >= NEVER:
                return False
            self._settle_instant(now_ns)
        elif end_ns > now_ns:
            self._let_arrive(now_ns)
        else:
            self._settle_instant(self._next_exact_ns())
        self._idle = []
        return True

    def _resume(self, now_ns: int) -> None:
        """Go on with the workers that became idle at this instant."""
        self._now_ns = now_ns
        self._settle_rounds(now_ns, now_ns, self._idle)

    # Prefill workers --------------------------------------------------------------------------------------

    def _end_prompts(self, index: int, now_ns: int) -> None:
        """End the pass of a prefill worker, hand its prompts on, and begin its next pass."""
        self.end_ns = now_ns
        worker = self._prefills[index]
        if sources := worker.finish():
            self._hand_on(sources, now_ns)
        if worker.start(now_ns):
            end_ns = self._ends[index] = worker.end_ns
            if end_ns == now_ns:
                self._end_at_once(index, now_ns)
        if self._idle:
            self._resume(now_ns)

    def _end_together(self, index: int, now_ns: int) -> None:
        """End what ends together with a pass of prefill worker `index`, the first of them."""
        ends, indices = self._ends, [index]
        while min(ends) == now_ns:
            index = ends.index(now_ns)
            ends[index] = NEVER
            indices.append(index)
        if index >= self._first_decode:
            for index in indices:
                ends[index] = now_ns
            self._settle_instant(now_ns)
            return
        self.end_ns = now_ns
        self._hand_on([source for index in indices for source in self._prefills[index].finish()], now_ns)
        self._idle += indices
        self._resume(now_ns)

    def _end_at_once(self, index: int, now_ns: int) -> None:
        """End a pass that lasts no time."""
        self._now_ns = self._boundary_ns = now_ns
        self._finish(index, now_ns)
        self._idle.append(index)

    def _hand_on(self, sources: ListOf[Sequence], now_ns: int) -> None:
        """Do what follows from the ends of prompts.

        Each is queued on the next decode worker, which gets to its first boundary from now on.
        """
        decodes, since, turns, first_decode = self._decodes, self._since, self._turns, self._first_decode
        if len(sources) > len(decodes) or self._deferred:  # some may meet on a decode worker
            for source in sources:
                self._end_prompt(source, now_ns)
            self._act()
            return
        for source in sources:
            if source.status is not None:
                self._end_prompt(source, now_ns)
                continue
            handoff = source.handoff
            handoff.held_ns = now_ns
            handoff.pools = _BOTH
            number = next(turns)
            worker, index = decodes[number], first_decode + number
            since_ns = since[index]
            if since_ns < NEVER:
                since[index] = NEVER
                end_ns = worker.end_ns = worker.advance(since_ns, now_ns)
                worker.busy = worker.is_over = worker.exact = True
                self._ends[index] = end_ns
            elif not worker.is_over:
                self._queue_late(handoff, number, now_ns)
                continue
            self._accept(handoff, number)
            if worker.end_ns <= now_ns:
                self._ends[index] = NEVER
                self._take_in(index, now_ns)

    def _accept(self, handoff: Handoff, number: int) -> None:
        """Queue a destination, which nothing is wrong with: `DecodeRank.accept`, of what the source knows."""
        rank, source, request = self._decode_ranks[number], handoff.source, handoff.request
        request.worker, request.rank = number, 0
        request.keys, request.tail_start = source.keys, source.tail_start
        rank.pool.stride = request.stride
        rank.pending.append(handoff)
        handoff.order = rank.accepted
        rank.accepted += 1

    def _queue_late(self, handoff: Handoff, number: int, now_ns: int) -> None:
        """Queue a destination on a decode worker that keeps to the clock: some wait for blocks there."""
        self._now_ns = self._boundary_ns = now_ns
        handoff.request.worker, handoff.request.rank = number, 0
        self._queue_destination(handoff)
        self._act()

    def _end_prompt(self, source: Sequence, now_ns: int) -> None:
        """Do what follows from the end of a prompt, as `DisaggFleet` does."""
        self._now_ns = self._boundary_ns = now_ns
        handoff = source.handoff
        if source.status is None:
            handoff.held_ns = now_ns
            self._reserve(handoff)
        else:
            self._end_early(handoff, source.status, source.reason)

    # Decode workers ---------------------------------------------------------------------------------------

    def _end_decoding(self, index: int, now_ns: int) -> None:
        """Let a decode worker be between passes."""
        self.end_ns = now_ns
        if self._decodes[index - self._first_decode].is_over and not self._deferred:
            self._take_in(index, now_ns)
        else:
            self._now_ns = self._boundary_ns = now_ns
            self._idle.append(index)
            self._finish(index, now_ns)
            self._act()
        if self._idle:
            self._resume(now_ns)

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

    # What follows step by step ----------------------------------------------------------------------------

    def _let_arrive(self, now_ns: int) -> None:
        """Queue requests that arrive on prefill workers, and begin a pass where none is in flight."""
        self.end_ns = now_ns
        prefills, idle = self._prefills, self._idle
        for request in self._driver.pop_ready(now_ns):
            handoff = Handoff(request)
            source = handoff.source
            index = source.worker = next(self._arrivals)
            source.rank = 0
            handoff.pools = _PREFILL
            worker = prefills[index]
            worker.submit(source)
            if not worker.busy:  # a row of chunks in flight uses up the budget of each pass
                idle.append(index)
        self._look_for_arrivals()
        if idle:
            self._resume(now_ns)

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
