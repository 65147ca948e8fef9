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


class PlainSessions(ListOf[Session]):
    """A list of such sessions, in file (or draw) order; only who makes it may `add` to it.

    Session i is called `prefix` and `numbers[i]`. The content ids of its prompt are
    `ids[bounds[i] : bounds[i + 1]]`; nobody shares content when `ids` is None.
    """

    __slots__ = ("arrivals_ms", "bounds", "ids", "inputs", "numbers", "outputs", "prefix")

    def __init__(self, prefix: str, *, with_ids: bool) -> None:
        self.prefix = prefix
        self.numbers = array("Q")
        self.arrivals_ms = array("d")
        self.inputs = array("I")
        self.outputs = array("I")
        self.bounds = array("Q", [0])
        self.ids = array("I") if with_ids else None

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
        self.numbers.extend(numbers)
        self.arrivals_ms.extend(arrivals_ms)
        self.inputs.extend(inputs)
        self.outputs.extend(outputs)

    def arriving(self, arrivals_ms: array[float]) -> PlainSessions:
        """Give the same sessions at other instants."""
        copy = PlainSessions(self.prefix, with_ids=False)
        copy.numbers, copy.arrivals_ms = self.numbers, arrivals_ms
        copy.inputs, copy.outputs = self.inputs, self.outputs
        copy.bounds, copy.ids = self.bounds, self.ids
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

    # In a replay ---------------------------------------------------------------------------------------

    def schedule(self) -> tuple[array[int], array[int]]:
        """List, in the order of arrival, the instants (ns) and the indices of all sessions."""
        import numpy as np  # noqa: PLC0415 - numpy costs start-up time that a command need not pay

        arrivals_ms = np.frombuffer(self.arrivals_ms)
        if (arrivals_ms == np.floor(arrivals_ms)).all():
            starts_ns = arrivals_ms.astype(np.int64) * NS_PER_MS
        else:
            starts_ns = np.array([clock_ns(ms) for ms in self.arrivals_ms], np.int64)
        order = np.argsort(starts_ns, kind="stable")
        return array("q", starts_ns[order].tobytes()), array("q", order.astype(np.int64).tobytes())


def _joined(ids: array[int], more: list[int]) -> array[int]:
    """Append ids, in 32 bits each as long as all fit."""
    try:
        ids += array(ids.typecode, more)
    except OverflowError:
        ids = array("Q", ids) + array("Q", more)
    return ids
