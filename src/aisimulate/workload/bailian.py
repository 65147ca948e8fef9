"""Reader of Alibaba's Qwen-Bailian traces: JSON Lines, times in seconds, content ids of 16 tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session, Turn
from aisimulate.workload.block_ids import packed
from aisimulate.workload.jsonl import Row, UnknownFields, parse_line
from aisimulate.workload.limits import MAX_HASH_ID, MAX_INSTANT_MS, MAX_TOKENS, shown
from aisimulate.workload.lines import text_lines
from aisimulate.workload.loaded import LoadedTrace
from aisimulate.workload.problems import wrong_row
from aisimulate.workload.time_scale import scale_doubts

if TYPE_CHECKING:
    from pathlib import Path

BLOCK_TOKENS = 16

FIELDS = (
    "chat_id",
    "parent_chat_id",
    "timestamp",
    "input_length",
    "output_length",
    "type",
    "turn",
    "hash_ids",
)

_NO_PARENT = -1


class _Chat(NamedTuple):
    place: str
    arrival_ms: float
    chat_id: int
    parent_id: int
    turn: Turn


def read_bailian(path: Path, block_tokens: int | None) -> LoadedTrace:
    """Read a trace, ordered by time. A chat and those that follow it are the turns of a session.

    A turn's think time is the difference of the two times, as in Mooncake traces. A chat that follows one
    which another chat follows already, or which is not there, starts a session at its own time, and is noted.
    Raises InputError naming file, line, field, value and rule.
    """
    if block_tokens not in (None, BLOCK_TOKENS):
        raise InputError(
            f"trace_block_size {block_tokens} does not match the {BLOCK_TOKENS} tokens that an id of a "
            "Bailian trace stands for"
        )
    unknown = UnknownFields(path, FIELDS)
    chats: list[_Chat] = []
    for number, line in text_lines(path):
        try:
            row = Row(path, number, parse_line(path, number, line))
            unknown.look(row)
            chats.append(_chat(row))
        except InputError as error:
            wrong_row(error)
    doubts = scale_doubts((chat.place, chat.arrival_ms) for chat in chats)
    _check_ids(chats)
    chats.sort(key=lambda chat: chat.arrival_ms)
    sessions, notes = _sessions(chats)
    return LoadedTrace(sessions, BLOCK_TOKENS, unknown.notes() + notes, doubts=doubts)


def _chat(row: Row) -> _Chat:
    for name in ("chat_id", "timestamp", "input_length", "output_length"):
        row.given(name)
    seconds = row.number("timestamp", limit=MAX_INSTANT_MS / 1000.0) or 0.0
    if seconds < 0:
        raise row.error(f"timestamp {seconds:g}: must not be negative")
    parent_id = row.whole("parent_chat_id", low=_NO_PARENT, high=MAX_HASH_ID)
    return _Chat(
        place=row.place,
        arrival_ms=seconds * 1000.0,
        chat_id=row.whole("chat_id", low=0, high=MAX_HASH_ID) or 0,
        parent_id=_NO_PARENT if parent_id is None else parent_id,
        turn=_turn(row),
    )


def _turn(row: Row) -> Turn:
    length = row.whole("input_length", low=1, high=MAX_TOKENS) or 0
    output = row.whole("output_length", low=0, high=MAX_TOKENS) or 0
    ids = row.wholes("hash_ids", high=MAX_HASH_ID)
    if ids is None:
        return Turn(length, output)
    capacity = len(ids) * BLOCK_TOKENS
    if length > capacity:
        blocks = f"{len(ids)} hash_ids x {BLOCK_TOKENS} tokens"
        raise row.error(f"input_length {length}: exceeds the capacity of {capacity} tokens ({blocks})")
    return Turn(length, output, packed(ids))


def _check_ids(chats: list[_Chat]) -> None:
    places: dict[int, str] = {}
    for chat in chats:
        first = places.setdefault(chat.chat_id, chat.place)
        if first is not chat.place:
            wrong_row(InputError(f"{chat.place}: chat_id {shown(chat.chat_id)}: already used at {first}"))


def _sessions(chats: list[_Chat]) -> tuple[list[Session], list[str]]:
    sessions: list[Session] = []
    latest: dict[int, tuple[Session, float]] = {}  # by the chat that a session ends with so far
    loose: list[str] = []
    for chat in chats:
        known = latest.pop(chat.parent_id, None)
        if known is None:
            session = Session(f"chat_{chat.chat_id}", [chat.turn], chat.arrival_ms)
            sessions.append(session)
            if chat.parent_id != _NO_PARENT:
                loose.append(chat.place)
        else:
            session, parent_ms = known
            chat.turn.delay_ms = chat.arrival_ms - parent_ms
            session.turns.append(chat.turn)
        latest[chat.chat_id] = session, chat.arrival_ms
    return sessions, _loose_notes(loose)


def _loose_notes(loose: list[str]) -> list[str]:
    if not loose:
        return []
    return [
        f"{loose[0]}: chats that start a session although they follow another, because it is not there or is "
        f"followed by a third: {len(loose)}, this one first"
    ]
