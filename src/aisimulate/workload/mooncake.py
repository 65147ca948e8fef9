"""Reader of Mooncake traces: one JSON object per request (spec 02 section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from operator import gt, mul
from typing import TYPE_CHECKING, Any

import orjson

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session, Turn
from aisimulate.workload.block_ids import packed
from aisimulate.workload.jsonl import Row, UnknownFields, parse_line
from aisimulate.workload.limits import MAX_HASH_ID, MAX_INSTANT_MS, MAX_TOKENS, shown
from aisimulate.workload.lines import line_batches, text_lines
from aisimulate.workload.loaded import LoadedTrace
from aisimulate.workload.plain import PlainSessions, whole_numbers
from aisimulate.workload.problems import wrong_row
from aisimulate.workload.time_scale import EPOCH_MS, scale_doubts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIELDS = (
    "timestamp",
    "created_time",
    "input_length",
    "input_tokens",
    "output_length",
    "output_tokens",
    "hash_ids",
    "output_token_ids",
    "session_id",
    "request_id",
    "delay",
    "delay_ms",
    "priority",
    "strict_priority",
    "policy_class",
)
"""Everything a row may say, aliases beside their names."""

_ROUTING = ("priority", "strict_priority", "policy_class")

# What is left of a line of the four usual fields, in their usual order, without its numbers.
_PLAIN_SHAPE = b'{"timestamp""input_length""output_length""hash_ids"}\n'
_NUMBERS = b"0123456789 ,:[]\r"
_BATCH_BYTES = 1 << 16


def read_mooncake(path: Path, block_tokens: int) -> LoadedTrace:
    """Read a trace of `block_tokens`-token content blocks into sessions, ordered by their first row.

    Rows of equal `session_id` are the turns of one session; a row without is a session of its own,
    `request_<line>`; an unknown field is noted. Raises InputError naming file, line, field, value and rule.
    """
    reader = _Reader(path, block_tokens)
    for first, lines in line_batches(path, _BATCH_BYTES):
        if not reader.add_plain(first, lines):
            for number, line in enumerate(lines, first):
                reader.add_line(number, line)
    return reader.finish()


def plain_rows(lines: list[bytes]) -> list[dict[str, Any]] | None:
    """Parse lines of the four usual fields in their usual order, with whole numbers of 0 or more.

    Nearly all lines of nearly all traces are such, so they are looked at together; None when one is not.
    """
    ends = lines.copy()
    ends[0] = b"[" + ends[0]
    ends[-1] += b"]"
    text = b",".join(ends)
    if text.translate(None, _NUMBERS).rstrip(b"\n") != (_PLAIN_SHAPE * len(lines))[:-1]:
        return None
    try:
        rows: list[dict[str, Any]] = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return rows


@dataclass(slots=True)
class _OpenSession:
    session: Session
    timestamp_ms: float | None  # of the latest row that has one


class _Reader:
    """Collects the sessions of one file."""

    def __init__(self, path: Path, block_tokens: int) -> None:
        self._path = path
        self._block_tokens = block_tokens
        # All sessions so far, as columns as long as each row is a session of its own and says nothing else.
        self._plain: PlainSessions | None = PlainSessions("request_", with_ids=True)
        self._sessions: list[Session] = []
        self._turns: list[Turn] = []  # in file order, unless they are columns
        self._open: dict[str, _OpenSession] = {}
        self._has_output_ids = self._has_wrong_rows = False
        self._unknown = UnknownFields(path, FIELDS)
        self._untimed: str | None = None
        self._rows = self._timed = self._since_1970 = 0  # all, with a time, with one since then

    def add_plain(self, first: int, lines: list[bytes]) -> bool:
        """Take rows of the plain shape whose fields are correct; if one is not, none of them is taken.

        They hold no number but whole ones of 0 or more, so few checks remain.
        """
        rows = plain_rows(lines)
        if rows is None:
            return False
        times, lengths, outputs, ids = zip(*map(dict.values, rows), strict=True)
        if {*map(type, times), *map(type, lengths), *map(type, outputs)} != {int}:
            return False  # a whole number too large for JSON's reader became a float
        if min(lengths) < 1 or max(*lengths, *outputs) > MAX_TOKENS or max(times) > MAX_INSTANT_MS:
            return False
        try:
            if any(map(gt, lengths, map(mul, map(len, ids), repeat(self._block_tokens)))):
                return False
            self._keep_plain(range(first, first + len(rows)), times, lengths, outputs, ids)
        except (OverflowError, TypeError):
            return False
        self._rows += len(rows)
        self._timed += len(rows)
        self._since_1970 += sum(map(EPOCH_MS.__le__, times)) if max(times) >= EPOCH_MS else 0
        return True

    def _keep_plain(
        self,
        numbers: range,
        times: tuple[int, ...],
        lengths: tuple[int, ...],
        outputs: tuple[int, ...],
        ids: tuple[list[int], ...],
    ) -> None:
        if self._plain is not None:
            columns = whole_numbers("Q", numbers.start, numbers.stop), times, lengths, outputs, ids
            self._plain.add(*columns)
            return
        blocks = [packed(row) for row in ids]
        turns = list(map(Turn, lengths, outputs, blocks))
        self._turns += turns
        self._sessions += [
            Session(f"request_{number}", [turn], float(ms))
            for number, turn, ms in zip(numbers, turns, times, strict=True)
        ]

    def add_line(self, number: int, line: bytes) -> None:
        """Take a line of any kind; a blank one says nothing."""
        if line.isspace() or self.add_plain(number, [line]):
            return
        try:
            self.add(number, Row(self._path, number, parse_line(self._path, number, line)))
        except InputError as error:
            wrong_row(error)
            self._has_wrong_rows = True

    def add(self, line: int, row: Row) -> None:
        """Take any row, with every check."""
        self._unknown.look(row)
        turn = self._read_turn(row)
        timestamp_ms = row.number("timestamp", "created_time", limit=MAX_INSTANT_MS)
        self._rows += 1
        if timestamp_ms is not None:
            self._timed += 1
            self._since_1970 += timestamp_ms >= EPOCH_MS
        session_id = row.text("session_id")
        self._spread()
        opened = self._open.get(session_id) if session_id is not None else None
        if opened is None:
            self._start(row, session_id, line, turn, timestamp_ms)
        else:
            turn.delay_ms = _think_time_ms(row, opened, timestamp_ms)
            opened.session.turns.append(turn)
            if timestamp_ms is not None:
                opened.timestamp_ms = timestamp_ms
        self._turns.append(turn)

    def finish(self) -> LoadedTrace:
        """Hand over the sessions, content ids made comparable with planned output tokens."""
        if not (self._rows or self._has_wrong_rows):
            raise InputError(f"{self._path}: the file contains no requests")
        if self._has_output_ids:
            _intern(self._turns)
        sessions = self._sessions if self._plain is None else self._plain
        notes = self._unknown.notes()
        return LoadedTrace(sessions, self._block_tokens, notes, self._untimed, self._doubts())

    def _doubts(self) -> list[str]:
        return scale_doubts(_times(self._path)) if 0 < self._since_1970 < self._timed else []

    def _spread(self) -> None:
        """Make objects of the rows in columns: the next one does not fit in there."""
        if self._plain is not None:
            self._sessions = list(self._plain)
            self._turns = [session.turns[0] for session in self._sessions]
            self._plain = None

    def _start(
        self, row: Row, session_id: str | None, line: int, turn: Turn, timestamp_ms: float | None
    ) -> None:
        delay = _delay_ms(row)
        if delay:
            raise row.error(f"delay {delay:g}: the first turn of a session has no delay")
        session = Session(session_id if session_id is not None else f"request_{line}", [turn], timestamp_ms)
        self._sessions.append(session)
        if timestamp_ms is None and self._untimed is None:
            self._untimed = f"{row.place}: session {shown(session.session_id)}"
        if session_id is not None:
            self._open[session_id] = _OpenSession(session, timestamp_ms)

    def _read_turn(self, row: Row) -> Turn:
        ids = self._read_hash_ids(row)
        output = row.whole("output_length", "output_tokens", low=0, high=MAX_TOKENS)
        if output is None:
            raise row.error("output_length is missing")
        return Turn(
            input_tokens=self._read_input_length(row, ids),
            output_tokens=output,
            block_ids=packed(ids),
            output_ids=self._read_output_ids(row, output),
            request_id=row.text("request_id"),
            metadata=routing_metadata(row),
        )

    def _read_hash_ids(self, row: Row) -> list[int]:
        ids = row.wholes("hash_ids", high=MAX_HASH_ID)
        if ids is None:
            raise row.error("hash_ids is missing")
        if not ids:
            raise row.error("hash_ids []: must name at least one block")
        return ids

    def _read_input_length(self, row: Row, ids: list[int]) -> int:
        capacity = len(ids) * self._block_tokens
        length = row.whole("input_length", "input_tokens", low=1, high=MAX_TOKENS)
        if length is None and capacity <= MAX_TOKENS:
            return capacity
        if length is None:
            blocks = f"{len(ids)} hash_ids x {self._block_tokens} tokens"
            raise row.error(f"input_length is missing, and {blocks} exceed {MAX_TOKENS}")
        if length > capacity:
            blocks = f"{len(ids)} hash_ids x {self._block_tokens} tokens"
            raise row.error(f"input_length {length}: exceeds the capacity of {capacity} tokens ({blocks})")
        return length

    def _read_output_ids(self, row: Row, output: int) -> list[int] | None:
        ids = row.wholes("output_token_ids", high=MAX_TOKENS)
        if ids is None:
            return None
        if len(ids) != output:
            raise row.error(f"output_token_ids of length {len(ids)}: must have output_length {output} ids")
        self._has_output_ids = True
        return ids


def _times(path: Path) -> Iterator[tuple[str, float]]:
    """Read the timestamps of a trace once more, with their places."""
    for number, line in text_lines(path):
        try:
            row = Row(path, number, parse_line(path, number, line))
            timestamp_ms = row.number("timestamp", "created_time", limit=MAX_INSTANT_MS)
        except InputError:
            continue  # known already
        if timestamp_ms is not None:
            yield row.place, timestamp_ms


def _delay_ms(row: Row) -> float | None:
    delay = row.number("delay", "delay_ms", limit=MAX_INSTANT_MS)
    if delay is not None and delay < 0:
        raise row.error(f"delay {delay:g}: must not be negative")
    return delay


def _think_time_ms(row: Row, opened: _OpenSession, timestamp_ms: float | None) -> float:
    """Time between the end of the previous turn and this one: authored, or from the timestamps."""
    delay = _delay_ms(row)
    if delay is not None:
        return delay
    if timestamp_ms is None:
        return 0.0
    known_ms, session_id = opened.timestamp_ms, opened.session.session_id
    if known_ms is None:
        raise row.error(
            f"timestamp {timestamp_ms:g}: no earlier turn of session {shown(session_id)} has one to count "
            "from"
        )
    if timestamp_ms < known_ms:
        raise row.error(
            f"timestamp {timestamp_ms:g}: before {known_ms:g}, an earlier turn of session {shown(session_id)}"
        )
    return timestamp_ms - known_ms


def routing_metadata(row: Row) -> dict[str, Any] | None:
    """Collect the routing fields a row has."""
    if row.names.isdisjoint(_ROUTING):
        return None
    fields = {
        "priority": row.whole("priority", low=-(2**31), high=2**31 - 1),
        "strict_priority": row.whole("strict_priority", low=0, high=2**32 - 1),
        "policy_class": row.text("policy_class"),
    }
    return {name: value for name, value in fields.items() if value is not None} or None


def _intern(turns: list[Turn]) -> None:
    """Number content ids 0, 1, .. by first appearance: id k is then the token id k (spec 02 section 2)."""
    numbers: dict[int, int] = {}
    for turn in turns:
        ids = turn.block_ids or ()
        turn.block_ids = packed([numbers.setdefault(content_id, len(numbers)) for content_id in ids])
