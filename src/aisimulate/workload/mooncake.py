"""Reader of Mooncake traces: one JSON object per request (spec 02 section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from itertools import count, repeat
from operator import gt, mul
from typing import TYPE_CHECKING, Any

import orjson

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session, Turn
from aisimulate.workload.block_ids import packed
from aisimulate.workload.jsonl import Row, UnknownFields, parse_line
from aisimulate.workload.limits import MAX_HASH_ID, MAX_INSTANT_MS, MAX_TOKENS, shown
from aisimulate.workload.lines import text_batches, text_lines
from aisimulate.workload.loaded import LoadedTrace
from aisimulate.workload.plain import PLAIN_FIELDS, PlainSessions
from aisimulate.workload.problems import wrong_row
from aisimulate.workload.time_scale import EPOCH_MS, scale_doubts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aisimulate.workload.plain_rows import PlainRows

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
_PLAIN_SHAPE = b"{%s}\n" % b"".join(b'"%s"' % name.encode() for name in PLAIN_FIELDS)
_NUMBERS = b"0123456789 ,:[]\r"
_BATCH_BYTES = 1 << 17
_PREFIX = "request_"  # and its line: the name of a session that is given none


def read_mooncake(path: Path, block_tokens: int) -> LoadedTrace:
    """Read a trace of `block_tokens`-token content blocks into sessions, ordered by their first row.

    Rows of equal `session_id` are the turns of one session; a row without is a session of its own,
    `request_<line>`; an unknown field is noted. Raises InputError naming file, line, field, value and rule.
    """
    reader = _Reader(path, block_tokens)
    for first, text in text_batches(path, _BATCH_BYTES):
        reader.add_text(first, text)
    return reader.finish()


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
        self._plain: PlainSessions | None = PlainSessions(_PREFIX, with_ids=True)
        self._sessions: list[Session] = []
        self._turns: list[Turn] = []  # in file order, unless they are columns
        self._open: dict[str, _OpenSession] = {}
        self._has_output_ids = self._has_wrong_rows = False
        self._unknown = UnknownFields(path, FIELDS)
        self._untimed: str | None = None
        self._rows = self._timed = self._since_1970 = 0  # all, with a time, with one since then

    def add_text(self, first: int, text: bytes) -> None:
        """Take whole lines of any kind: together where they are plain, else one by one."""
        if self.add_plain(first, text):
            return
        lines = BytesIO(text).readlines()
        if not self.add_plain_lines(first, lines):
            for number, line in enumerate(lines, first):
                self.add_line(number, line)

    def add_plain(self, first: int, text: bytes) -> bool:
        """Take lines of plain rows whose numbers are allowed; if one is not, none of them is taken."""
        if (rows := _rows_of(text)) is None:
            return False
        if rows.inputs.min() < 1 or max(rows.inputs.max(), rows.outputs.max()) > MAX_TOKENS:
            return False
        if rows.times_ms.max() > MAX_INSTANT_MS or (rows.inputs > rows.id_counts * self._block_tokens).any():
            return False
        if self._plain is not None:
            self._plain.add_rows(first, rows)
        else:
            batch = PlainSessions(_PREFIX, with_ids=True)
            batch.add_rows(first, rows)
            self._keep(list(batch))
        self._rows += len(rows.inputs)
        self._timed += len(rows.inputs)
        self._since_1970 += int((rows.times_ms >= EPOCH_MS).sum())
        return True

    def add_line(self, number: int, line: bytes) -> None:
        """Take a line of any kind; a blank one says nothing."""
        if line.isspace() or self.add_plain_lines(number, [line]):
            return
        try:
            self.add(number, Row(self._path, number, parse_line(self._path, number, line)))
        except InputError as error:
            wrong_row(error)
            self._has_wrong_rows = True

    def add_plain_lines(self, first: int, lines: list[bytes]) -> bool:
        """Take lines of the four usual fields, however they are spaced, as `add_plain` does."""
        if (rows := _spaced_rows(lines)) is None:
            return False
        times, lengths, outputs, ids = zip(*map(dict.values, rows), strict=True)
        if {*map(type, times), *map(type, lengths), *map(type, outputs)} != {int}:
            return False  # a whole number too large for JSON's reader became a float
        if min(lengths) < 1 or max(*lengths, *outputs) > MAX_TOKENS or max(times) > MAX_INSTANT_MS:
            return False
        try:
            if any(map(gt, lengths, map(mul, map(len, ids), repeat(self._block_tokens)))):
                return False
            if self._plain is not None:
                self._plain.add(range(first, first + len(rows)), times, lengths, outputs, ids)
            else:
                turns = map(Turn, lengths, outputs, [packed(row) for row in ids])
                named = zip(count(first), turns, times)
                self._keep([Session(f"{_PREFIX}{line}", [turn], float(ms)) for line, turn, ms in named])
        except (OverflowError, TypeError):
            return False
        self._rows += len(rows)
        self._timed += len(rows)
        self._since_1970 += sum(map(EPOCH_MS.__le__, times))
        return True

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
            plain, self._plain = self._plain, None
            self._keep(list(plain))

    def _keep(self, sessions: list[Session]) -> None:
        """Keep sessions of one turn each, made of plain rows."""
        self._sessions += sessions
        self._turns += [session.turns[0] for session in sessions]

    def _start(
        self, row: Row, session_id: str | None, line: int, turn: Turn, timestamp_ms: float | None
    ) -> None:
        delay = _delay_ms(row)
        if delay:
            raise row.error(f"delay {delay:g}: the first turn of a session has no delay")
        session = Session(session_id if session_id is not None else f"{_PREFIX}{line}", [turn], timestamp_ms)
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


def _rows_of(text: bytes) -> PlainRows | None:
    """Read lines of plain rows, however they end; None if one is not such."""
    from aisimulate.workload.plain_rows import plain_rows  # noqa: PLC0415 - numpy costs start-up time

    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    return plain_rows(text if text.endswith(b"\n") else text + b"\n")


def _spaced_rows(lines: list[bytes]) -> list[dict[str, Any]] | None:
    """Parse lines of the four usual fields in their usual order, with whole numbers of 0 or more.

    They are looked at together; None when one is not such.
    """
    text = b",".join(lines)
    if text.translate(None, _NUMBERS).rstrip(b"\n") != (_PLAIN_SHAPE * len(lines))[:-1]:
        return None
    try:
        rows: list[dict[str, Any]] = orjson.loads(b"[" + text + b"]")
    except orjson.JSONDecodeError:
        return None
    # Numbers may be in the names or behind a row, and the names be values: "time7stamp".
    return rows if all(type(row) is dict and tuple(row) == PLAIN_FIELDS for row in rows) else None


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
