"""The requests of plain sessions, made with as little as the engine needs of each."""

from __future__ import annotations

from array import array
from itertools import count, repeat
from typing import TYPE_CHECKING

from aisimulate.core.units import to_ms
from aisimulate.engine.sequence import Origin, Sequence
from aisimulate.workload.plain import PlainSessions

if TYPE_CHECKING:
    from collections.abc import Iterable


class PlainRequests:
    """Makes the requests of plain sessions in the order in which they start, and is the origin of all.

    Request number i is that of session `starters[i]`, a list that may grow. Requests arrive at the instants
    of the trace, unless it says nothing about them (`as_authored` is false). Of their prompts' full blocks,
    `block_tokens` each, they tell how many at the start others may have (`Sequence.tail_start`).
    """

    __slots__ = ("_alike", "_as_authored", "_common", "_sessions", "_starters", "_stride", "extremes")

    dp_rank = None  # none of them names a rank

    def __init__(
        self,
        sessions: PlainSessions,
        starters: array[int],
        stride: int,
        block_tokens: int,
        *,
        as_authored: bool,
    ) -> None:
        self._sessions = sessions
        self._starters = starters
        self._stride = stride
        self._as_authored = as_authored
        self._common = _common_blocks(sessions, stride, block_tokens)
        lengths = sessions.lengths_between()
        # The longest prompt, the least and the most output of all sessions; None if there are none.
        self.extremes = None if lengths is None else lengths[1:]
        is_alike = lengths is not None and lengths[0] == lengths[1] and lengths[2] == lengths[3]
        self._alike = lengths[1:3] if lengths is not None and is_alike else None  # (prompt, output) of all

    def of(self, sequence: Sequence) -> Origin:
        """Give the origin of one of the requests, which is seldom asked for."""
        sessions, index = self._sessions, self._starters[sequence.ordinal]
        row = _PlainRow((sessions, index))
        arrival_ms = sessions.arrivals_ms[index] if self._as_authored else to_ms(sequence.arrival_ns)
        return Origin(row, row, 0, arrival_ms)  # type: ignore[arg-type]  # all that is asked of them

    def start(self, first: int, ready_ns: array[int]) -> list[Sequence]:
        """Make the requests from number `first` on, ready at these instants."""
        sessions, chosen = self._sessions, self._starters[first : first + len(ready_ns)]
        inputs: Iterable[int] = map(sessions.inputs.__getitem__, chosen)
        outputs: Iterable[int] = map(sessions.outputs.__getitem__, chosen)
        if self._alike is not None:
            inputs, outputs = map(repeat, self._alike)
        ids, bounds = sessions.ids, sessions.bounds
        if ids is None:
            keys: Iterable[array[int] | None] = repeat(None)
        else:
            stops = map(bounds.__getitem__, map((1).__add__, chosen))
            keys = map(ids.__getitem__, map(slice, map(bounds.__getitem__, chosen), stops))
        # The engine looks keys up, slices and compares them, which arrays do as well among themselves.
        common = map(self._common.__getitem__, chosen) if self._common else repeat(0)
        columns = (ready_ns, inputs, outputs, keys, repeat(self._stride), repeat(False), common)
        return list(map(Sequence, count(first), repeat(self), *columns))

    def start_one(self, number: int, ready_ns: int) -> Sequence:
        """Make one request, as `start` does."""
        sessions, index = self._sessions, self._starters[number]
        ids, bounds = sessions.ids, sessions.bounds
        return Sequence(
            number,
            self,
            ready_ns,
            sessions.inputs[index],
            sessions.outputs[index],
            None if ids is None else ids[bounds[index] : bounds[index + 1]],  # type: ignore[arg-type]
            self._stride,
            common_blocks=self._common[index] if self._common else 0,
        )


def _common_blocks(sessions: PlainSessions, stride: int, block_tokens: int) -> array[int] | None:
    """Count the full blocks at the start of each prompt that others may have; None: nobody shares."""
    if sessions.ids is None:
        return None
    import numpy as np  # noqa: PLC0415 - numpy costs start-up time that a command need not pay

    full = np.frombuffer(sessions.inputs, dtype=sessions.inputs.typecode).astype(np.int64) // block_tokens
    if (common := sessions.common_blocks(stride)) is not None:
        full = np.minimum(full, np.frombuffer(common, dtype=np.int64))
    return array("q", full.tobytes())


class _PlainRow(tuple[PlainSessions, int]):
    """All that is asked of the turn and the session that a request is: (sessions, index)."""

    __slots__ = ()

    request_id = metadata = dp_rank = None

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self[0].name(self[1])

    @property
    def output_tokens(self) -> int:
        """Tokens that are asked for."""
        return self[0].outputs[self[1]]
