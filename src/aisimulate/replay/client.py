"""What a client sees of a replay through a front end: chunks of tokens, somewhat later.

Engines know nothing of it, but that a busy one may look for new requests only now and then. A client sees a
chunk when its last token is there, and anything `offset_ns` later than the engine has it; in a closed loop
it sends its next request then (docs/front-end.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from aisimulate.core.units import to_ms
from aisimulate.engine.sequence import COMPLETED
from aisimulate.engine.token_times import token_times_of
from aisimulate.workload.drivers import PassedOn

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.sequence import Sequence
    from aisimulate.replay.columns import Columns
    from aisimulate.workload.drivers import Driver


_CLIENT_KEYS = (
    "client_first_token_ms",
    "client_last_token_ms",
    "client_ttft_ms",
    "client_e2e_latency_ms",
)


@dataclass(slots=True, frozen=True)
class Frontend:
    """A front end that does something; `preset` names where its numbers are from, None if they were given."""

    stream_interval: int = 1
    offset_ns: int = 0
    receive_interval: int = 1
    preset: str | None = None
    ttft_ratio: float = 1.0  # of a calibration: how much longer the wait for the first token is
    step_overhead_ns: int = 0  # is in the times of passes already

    @property
    def named(self) -> dict[str, Any]:
        """What the report says of it."""
        return {
            "preset": self.preset,
            "stream_interval": self.stream_interval,
            "ttft_offset_ms": to_ms(self.offset_ns),
            "receive_interval": self.receive_interval,
            "step_overhead_ms": to_ms(self.step_overhead_ns),
            **({} if self.ttft_ratio == 1.0 else {"ttft_ratio": self.ttft_ratio}),
        }

    def shift_ns(self, ttft_ns: int) -> int:
        """Say how much later a client sees the tokens of a request whose first came after `ttft_ns`."""
        return self.offset_ns + round((self.ttft_ratio - 1.0) * ttft_ns)


class ClientTraffic(PassedOn):
    """A driver whose clients hear of an end later than the engine."""

    def __init__(self, driver: Driver, offset_ns: int) -> None:
        super().__init__(driver)
        self._offset_ns = offset_ns
        self.pop_ready = driver.pop_ready

    def on_terminal(self, sequence: Sequence, now_ns: int) -> None:
        """Take note that a request ended at `now_ns`."""
        self._driver.on_terminal(sequence, now_ns + self._offset_ns)


class ClientView:
    """The instants at which clients saw what completed requests got; `chunks_ns` by ordinal, with chunks."""

    def __init__(self, frontend: Frontend, chunks_ns: dict[int, tuple[int, int]]) -> None:
        self.frontend = frontend
        self._chunks_ns = chunks_ns

    @classmethod
    def of(
        cls, frontend: Frontend, sequences: Iterable[Sequence], workers: list[Worker], first_worker: int
    ) -> ClientView:
        """Look up when chunks were complete; the workers from number `first_worker` on give tokens."""
        size = frontend.stream_interval
        if size <= 1:
            return cls(frontend, {})
        times = [token_times_of(worker) for worker in workers[first_worker:]]
        chunks_ns = {}
        for sequence in sequences:
            if sequence.status == COMPLETED and sequence.first_token_ns is not None:
                rank = times[sequence.worker][sequence.rank]
                chunks_ns[sequence.ordinal] = rank.token_ns(sequence, size), rank.token_ns(sequence, 2 * size)
        return cls(frontend, chunks_ns)

    @property
    def gathers(self) -> bool:
        """Whether tokens come in chunks."""
        return bool(self._chunks_ns)

    def columns(self, engine: Columns, sequences: Iterable[Sequence]) -> Columns:
        """Put what clients saw in place of what engines did; `sequences` are those of the rows."""
        seen = engine
        if self._chunks_ns:
            rows = [self._chunks_ns.get(sequence.ordinal, (0, 0)) for sequence in sequences]
            chunks = np.array(rows, dtype=np.int64).reshape(-1, 2)
            seen = replace(seen, first_ns=chunks[:, 0], second_ns=chunks[:, 1])
        shift_ns = self._shifts_ns(seen)
        return replace(
            seen,
            first_ns=seen.first_ns + shift_ns,
            second_ns=seen.second_ns + shift_ns,
            last_ns=seen.last_ns + shift_ns,
            terminal_ns=seen.terminal_ns + shift_ns,
        )

    def _shifts_ns(self, seen: Columns) -> npt.NDArray[np.int64] | int:
        frontend = self.frontend
        if frontend.ttft_ratio == 1.0:
            return frontend.offset_ns
        longer = np.rint((frontend.ttft_ratio - 1.0) * (seen.first_ns - seen.arrival_ns))
        shifts_ns: npt.NDArray[np.int64] = frontend.offset_ns + longer.astype(np.int64)
        return shifts_ns

    def record(self, sequence: Sequence) -> dict[str, Any]:
        """What the record of a request says of its client; nulls where it did not get what it asked for."""
        first_ns, last_ns = sequence.first_token_ns, sequence.last_token_ns
        if sequence.status != COMPLETED or first_ns is None or last_ns is None:
            return dict.fromkeys(_CLIENT_KEYS)
        seen_ns, arrival_ns = self._chunks_ns.get(sequence.ordinal, (first_ns, 0))[0], sequence.arrival_ns
        shift_ns = self.frontend.shift_ns(seen_ns - arrival_ns)
        seen_ns, last_ns = seen_ns + shift_ns, last_ns + shift_ns
        instants = (seen_ns, last_ns, seen_ns - arrival_ns, last_ns - arrival_ns)
        return {key: to_ms(max(0, ns)) for key, ns in zip(_CLIENT_KEYS, instants, strict=True)}
