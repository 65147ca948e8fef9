"""What the report needs of each counted request, as columns: one sweep over the requests instead of many."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from aisimulate.core.units import NS_PER_MS
from aisimulate.engine.sequence import COMPLETED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.engine.sequence import Sequence

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Admissions: TypeAlias = tuple[tuple[int, int], ...]  # (instant, reused tokens)

_AT_A_TIME = 1 << 13  # requests whose numbers are listed before they take less memory


@dataclass(slots=True, frozen=True)
class Columns:
    """Counted requests (admitted and completed) in dispatch order; instants in ns, lengths in tokens.

    Token instants of requests that emitted none are 0. `first_reuse` is what the first admission found in the
    cache, `best_reuse` the most that any admission found.
    """

    input_tokens: Ints
    output_tokens: Ints
    arrival_ns: Ints
    first_ns: Ints
    second_ns: Ints
    last_ns: Ints
    terminal_ns: Ints
    first_reuse: Ints
    best_reuse: Ints

    @classmethod
    def of(cls, sequences: Iterable[Sequence], *, disaggregated: bool = False) -> Columns:
        """Collect the counted ones among `sequences`; admissions of a handoff are those of both workers."""
        remaining = iter(sequences)
        parts = [np.empty(0, np.int64)]
        while batch := list(islice(remaining, _AT_A_TIME)):
            numbers = _numbers(batch, disaggregated)
            parts.append(np.fromiter(numbers, np.int64, len(numbers)))
        columns = np.concatenate(parts).reshape(-1, len(cls.__slots__)).T.copy()
        columns[1] -= columns[0]
        return cls(*columns)

    @classmethod
    def joined(cls, parts: list[Columns], order: Ints) -> Columns:
        """Put the requests of several parts into one, row `order[i]` of all of them as row i.

        Empties the list of parts, so that no column need be there twice.
        """
        columns = [[getattr(part, name) for part in parts] for name in reversed(cls.__slots__)]
        parts.clear()
        return cls(*(np.concatenate(columns.pop())[order] for _ in cls.__slots__))

    def __len__(self) -> int:
        return len(self.input_tokens)


def _numbers(sequences: list[Sequence], disaggregated: bool) -> list[int]:
    """Give the numbers of each counted request, all its tokens in place of its output.

    One request after the other: to go through all of them for each column would fetch them from memory again.
    """
    numbers: list[int] = []
    for s in sequences:
        if s.status != COMPLETED or not (
            admissions := _reusing_admissions(s) if disaggregated else s.admissions
        ):
            continue
        first_reuse = admissions[0][1]
        numbers += (
            s.input_tokens,
            s.tokens,
            s.arrival_ns,
            s.first_token_ns or 0,
            s.second_token_ns or 0,
            s.last_token_ns or 0,
            s.terminal_ns or 0,
            first_reuse,
            first_reuse if len(admissions) == 1 else max(reused for _, reused in admissions),
        )
    return numbers


def counted_sequences(sequences: Iterable[Sequence], *, disaggregated: bool = False) -> list[Sequence]:
    """List the requests that have a row in `Columns.of`."""
    return [
        sequence
        for sequence in sequences
        if sequence.status == COMPLETED
        and (_reusing_admissions(sequence) if disaggregated else sequence.admissions)
    ]


def _reusing_admissions(sequence: Sequence) -> Admissions:
    """Those of both workers; most often the decode worker lets a request in once, and reuses nothing."""
    admissions = sequence.admissions
    if len(admissions) == 1 and not admissions[0][1]:
        return sequence.handoff.source.admissions
    return sequence.handoff.admissions


@dataclass(slots=True, frozen=True)
class Latencies:
    """Latencies of the counted requests with at least one token, in ms, in dispatch order.

    `several` marks those with two tokens or more; `ttst` and `tpot` have one entry for each of them.
    """

    output_tokens: Ints
    several: npt.NDArray[np.bool_]
    ttft: Floats
    ttst: Floats
    tpot: Floats
    e2e: Floats

    @classmethod
    def of(cls, columns: Columns) -> Latencies:
        """Derive the latencies of the requests that emitted tokens."""
        emitting = columns.output_tokens > 0
        output_tokens, arrival, first, second, last = (
            column[emitting]
            for column in (
                columns.output_tokens,
                columns.arrival_ns,
                columns.first_ns,
                columns.second_ns,
                columns.last_ns,
            )
        )
        several = output_tokens > 1
        return cls(
            output_tokens,
            several,
            np.maximum(first - arrival, 0) / NS_PER_MS,
            np.maximum(second - first, 0)[several] / NS_PER_MS,
            (last - first)[several] / ((output_tokens[several] - 1) * NS_PER_MS),
            np.maximum(last - arrival, 0) / NS_PER_MS,
        )
