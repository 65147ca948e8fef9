"""Sessions of one turn each of which only arrival, lengths and content are known, kept as columns.

Most traces and synthetic loads are such. A million of them take a hundred bytes each instead of seven
hundred, and the objects that stand for one are made when somebody asks for it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence as ListOf
from itertools import accumulate, chain
from typing import TYPE_CHECKING, overload

from aisimulate.core.traffic import Session, Turn
from aisimulate.core.units import NS_PER_MS, clock_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    import numpy as np
    import numpy.typing as npt

    from aisimulate.workload.plain_rows import PlainRows

    Ints: TypeAlias = npt.NDArray[np.int64]

PLAIN_FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")
"""What a row of a Mooncake trace says of such a session, in the usual order."""

_MOST_COUNTED_IDS = 1 << 22  # beyond that, the counters would take much memory
_MOST_32_BITS = 2**32 - 1


class PlainSessions(ListOf[Session]):
    """A list of such sessions, in file (or draw) order; only who makes it may `add` to it.

    Session i is called `prefix` and `numbers[i]`. The content ids of its prompt are
    `ids[bounds[i] : bounds[i + 1]]`; nobody shares content when `ids` is None.
    """

    __slots__ = ("_common", "arrivals_ms", "bounds", "ids", "inputs", "numbers", "outputs", "prefix")

    def __init__(self, prefix: str, *, with_ids: bool) -> None:
        self.prefix = prefix
        self.numbers = array("Q")
        self.arrivals_ms = array("d")
        self.inputs = array("I")
        self.outputs = array("I")
        self.bounds = array("Q", [0])
        self.ids = array("I") if with_ids else None
        self._common: Ints | None = None  # content ids at the start of each prompt that others have too

    def add(
        self,
        numbers: Iterable[int],
        arrivals_ms: Iterable[float],
        inputs: Iterable[int],
        outputs: Iterable[int],
        ids: ListOf[ListOf[int]] = (),
    ) -> None:
        """Append sessions whose arrivals and lengths are checked.

        Raises TypeError for an id that is no whole number, OverflowError for one below 0 or beyond 64 bits;
        nothing is appended then.
        """
        if self.ids is not None:
            self.ids = _joined(self.ids, list(chain.from_iterable(ids)))
            first = self.bounds.pop()
            self.bounds.extend(accumulate(map(len, ids), initial=first))
        # Arrays of lists are made much faster than arrays are extended.
        self.numbers += array("Q", numbers)
        self.arrivals_ms += array("d", arrivals_ms)
        self.inputs += array("I", inputs)
        self.outputs += array("I", outputs)

    def add_rows(self, first: int, rows: PlainRows) -> None:
        """Append the sessions of the lines from number `first` on, of a trace that has content ids."""
        import numpy as np  # noqa: PLC0415 - as in `lengths_between`

        assert self.ids is not None
        if self.ids.typecode == "I" and rows.ids.max() > _MOST_32_BITS:
            self.ids = array("Q", self.ids)
        columns = (
            (self.ids, rows.ids),
            (self.bounds, np.uint64(len(self.ids)) + np.cumsum(rows.id_counts, dtype=np.uint64)),
            (self.numbers, np.arange(first, first + len(rows.inputs))),
            (self.arrivals_ms, rows.times_ms),
            (self.inputs, rows.inputs),
            (self.outputs, rows.outputs),
        )
        for column, more in columns:
            column.frombytes(more.astype(column.typecode).tobytes())

    def arriving(self, arrivals_ms: array[float]) -> PlainSessions:
        """Give the same sessions at other instants."""
        copy = PlainSessions(self.prefix, with_ids=False)
        copy.numbers, copy.arrivals_ms = self.numbers, arrivals_ms
        copy.inputs, copy.outputs = self.inputs, self.outputs
        copy.bounds, copy.ids = self.bounds, self.ids
        return copy

    def beginning(self, count: int) -> PlainSessions:
        """Give the first `count` of the sessions."""
        copy = PlainSessions(self.prefix, with_ids=False)
        copy.numbers, copy.arrivals_ms = self.numbers[:count], self.arrivals_ms[:count]
        copy.inputs, copy.outputs = self.inputs[:count], self.outputs[:count]
        if self.ids is not None:
            copy.bounds = self.bounds[: count + 1]
            copy.ids = self.ids[: copy.bounds[count]]
        return copy

    # As a list -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Session: ...
    @overload
    def __getitem__(self, index: slice) -> list[Session]: ...
    def __getitem__(self, index: int | slice) -> Session | list[Session]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = range(len(self))[index]
        turn = Turn(self.inputs[index], self.outputs[index], self.block_ids(index))
        return Session(self.name(index), [turn], self.arrivals_ms[index])

    def __iter__(self) -> Iterator[Session]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, PlainSessions | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def name(self, index: int) -> str:
        """Give the id of a session."""
        return f"{self.prefix}{self.numbers[index]}"

    def block_ids(self, index: int) -> array[int] | None:
        """Give the content ids of a prompt."""
        return None if self.ids is None else self.ids[self.bounds[index] : self.bounds[index + 1]]

    def lengths_between(self) -> tuple[int, int, int, int] | None:
        """The shortest and the longest prompt, the least and the most output; None of no sessions."""
        import numpy as np  # noqa: PLC0415 - numpy costs start-up time that a command need not pay

        if not len(self):
            return None
        inputs, outputs = (np.frombuffer(column, column.typecode) for column in (self.inputs, self.outputs))
        return int(inputs.min()), int(inputs.max()), int(outputs.min()), int(outputs.max())

    # In a replay ---------------------------------------------------------------------------------------

    def schedule(self) -> tuple[array[int], array[int]]:
        """List, in the order of arrival, the instants (ns) and the indices of all sessions."""
        import numpy as np  # noqa: PLC0415 - as above

        arrivals_ms = np.frombuffer(self.arrivals_ms)
        if (arrivals_ms == np.floor(arrivals_ms)).all():
            starts_ns = arrivals_ms.astype(np.int64) * NS_PER_MS
        else:
            starts_ns = np.array([clock_ns(ms) for ms in self.arrivals_ms], np.int64)
        order = np.argsort(starts_ns, kind="stable")
        return array("q", starts_ns[order].tobytes()), array("q", order.astype(np.int64).tobytes())

    def common_blocks(self, stride: int) -> array[int] | None:
        """Count the blocks at the start of each prompt that another one may have, `stride` per content id.

        None where it is not worth while: of a very long trace, or one whose ids are not numbered.
        """
        if self.ids is None or not 0 < len(self.ids) <= _MOST_COUNTED_IDS:
            return None
        if self._common is None:
            self._common = _common_ids(self.ids, self.bounds)
        return array("q", (self._common * stride).tobytes()) if len(self._common) else None


def whole_numbers(typecode: str, start: int, stop: int) -> array[int]:
    """List the whole numbers from `start` to `stop` (exclusive)."""
    import numpy as np  # noqa: PLC0415 - as above

    return array(typecode, np.arange(start, stop, dtype=typecode).tobytes())


def _joined(ids: array[int], more: list[int]) -> array[int]:
    """Append ids, in 32 bits each as long as all fit."""
    try:
        ids += array(ids.typecode, more)
    except OverflowError:
        ids = array("Q", ids) + array("Q", more)
    return ids


def _common_ids(ids: array[int], bounds: array[int]) -> Ints:
    """Count the ids at the start of each row that are in the trace more than once; empty: not counted."""
    import numpy as np  # noqa: PLC0415 - as above

    all_ids = np.frombuffer(ids, dtype=ids.typecode)
    if int(all_ids.max()) > 4 * _MOST_COUNTED_IDS:
        return np.empty(0, dtype=np.int64)
    edges = np.frombuffer(bounds, dtype=bounds.typecode).astype(np.int64)
    starts, stops = edges[:-1], edges[1:]
    single = np.flatnonzero(np.bincount(all_ids)[all_ids] == 1)
    single = np.append(single, len(all_ids))
    first_single = single[np.searchsorted(single, starts)]
    return np.minimum(first_single, stops) - starts
