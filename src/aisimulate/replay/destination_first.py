"""The event loop of a disaggregated replay whose prompts get their destination before they are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aisimulate.replay.disagg_fleet import Destination, DisaggFleet

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence as ListOf

    from aisimulate.engine.handoff import Handoff
    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.transfer import TransferTime
    from aisimulate.replay.disagg_fleet import Source
    from aisimulate.replay.fleet import Placement
    from aisimulate.workload.drivers import Driver


class FirstDestination(Destination, Protocol):
    """A destination that is reserved before its prompt is computed, maybe in vain."""

    def cancel(self, handoff: Handoff) -> None: ...  # noqa: D102


class DestinationFirstFleet(DisaggFleet):
    """Reserves the destination of a prompt before it is computed, as SGLang does."""

    def __init__(
        self,
        pools: tuple[list[Worker], list[Worker]],
        ranks: tuple[ListOf[ListOf[Source]], ListOf[ListOf[FirstDestination]]],
        placements: tuple[Placement, Placement],
        driver: Driver,
        transfer: TransferTime,
        limit_ns: int | None = None,
    ) -> None:
        super().__init__(pools, ranks, placements, driver, transfer, limit_ns)
        self._first_destinations = ranks[1]
        self._arrived, self._computed, self._reserved = self._reserve, self._start_transfer, self._submit
        # Whether the request that ends now never decodes; who is told when nothing is kept for it any more.
        self.calls_off = False
        self.on_called_off: Callable[[Sequence], None] = _nobody

    def _end_early(self, handoff: Handoff, status: str, reason: str | None) -> None:
        self.calls_off = True
        super()._end_early(handoff, status, reason)
        self.calls_off = False
        follows = self._call_off if handoff.reserved_ns is None else self._cancel
        self._actions.append((follows, handoff))

    def _cancel(self, handoff: Handoff) -> None:
        """Give back a reservation, when its worker is between passes."""
        request = handoff.request
        index = self._first_decode + request.worker
        if not self._between_passes(index):
            self._defer(index, request.rank, self._cancel, handoff)
            return
        rank = self._first_destinations[request.worker][request.rank]
        rank.cancel(handoff)
        self._retry(rank)
        self._actions.append((self._call_off, handoff))

    def _call_off(self, handoff: Handoff) -> None:
        self.on_called_off(handoff.request)


def _nobody(sequence: Sequence) -> None:
    del sequence
