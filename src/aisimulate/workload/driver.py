"""Releases the requests of a workload: when each turn of each session becomes ready (spec 02 section 4)."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain, count
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.core.units import clock_ns, to_ms
from aisimulate.engine.sequence import COMPLETED, FAILED, Origin, Sequence
from aisimulate.workload.content import PromptSpeller, ids_are_keys
from aisimulate.workload.history import History, PrivateTokens
from aisimulate.workload.plain import PlainSessions, whole_numbers
from aisimulate.workload.plain_requests import PlainRequests
from aisimulate.workload.sessions import require_arrivals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aisimulate.core.traffic import Session, Turn, Workload


_MADE_AHEAD = 256  # requests of a closed loop that are made together


@dataclass(slots=True)
class _Conversation:
    """A session of several turns on its way: turn `number` is the next to dispatch or in flight."""

    index: int
    session: Session
    history: History | None
    number: int = 0
    arrival_ms: float = 0.0

    @property
    def has_next(self) -> bool:
        return self.number + 1 < len(self.session.turns)


class SessionDriver:
    """Feeds one replay; the workload itself is only read.

    Open loop: a session starts at its first arrival. Closed loop (`workload.concurrency`): sessions start
    in file order whenever fewer than the cap are active, and hold their slot through think time. A turn
    becomes ready its delay after the previous one ended, completed or rejected. `now_ns` must never fall
    from call to call.
    """

    is_told = False  # whether it has to hear that requests took the places of others
    looks_back = False  # whether it looks again at requests that have ended

    def __init__(self, workload: Workload, block_tokens: int) -> None:
        """Prepare the first arrivals; `block_tokens` is the engine's KV block size.

        Raises InputError when an open-loop session has no first arrival, or the cap is below 1.
        """
        self.sequences: list[Sequence] = []  # everything dispatched so far, by ordinal
        self._ordinals = count()
        self._sessions = workload.sessions
        self._prepare_content(workload, block_tokens)
        plain = workload.sessions if isinstance(workload.sessions, PlainSessions) else None
        self._single_turns = plain is not None or all(len(s.turns) == 1 for s in workload.sessions)
        self._closed_loop = workload.concurrency is not None
        # First turns, sorted by ready instant and session index, with a cursor; sessions beyond `_waiting`
        # have no place yet. Later turns are few, and wait in a heap.
        self._starts_ns = array("q")
        self._starters = array("q")  # session indices
        self._cursor = 0
        self._session_count = self._waiting = len(self._sessions)
        self._later: list[tuple[int, int, _Conversation]] = []
        self._in_flight: dict[int, _Conversation] = {}  # by ordinal, sessions of several turns only
        if workload.concurrency is None:
            self._schedule_open_loop()
        else:
            self._fill_slots(workload.concurrency)
        self._plain: PlainRequests | None = None
        if plain is not None and self._speller is None:  # else what is in the columns has to be spelled first
            as_authored = not self._closed_loop
            self._plain = PlainRequests(
                plain, self._starters, self._stride, block_tokens, as_authored=as_authored
            )

    @property
    def is_independent(self) -> bool:
        """Whether no arrival depends on what the engines do, so workers may be replayed one by one."""
        return not self._closed_loop and self._single_turns

    @property
    def is_closed_loop(self) -> bool:
        """Whether a session starts when another one ends."""
        return self._closed_loop

    @property
    def stride(self) -> int:
        """The blocks of each content id of a prompt."""
        return self._stride

    def next_ready_ns(self) -> int | None:
        """Instant of the next request known so far, or None."""
        start_ns = self._starts_ns[self._cursor] if self._cursor < len(self._starts_ns) else None
        if not self._later:
            return start_ns
        later_ns = self._later[0][0]
        return later_ns if start_ns is None or later_ns < start_ns else start_ns

    def pop_ready(self, now_ns: int) -> list[Sequence]:
        """Dispatch every request ready by `now_ns`, ordered by ready instant, session index and turn."""
        if self._later and self._later[0][0] <= now_ns:
            return self._pop_merged(now_ns)
        starts_ns, cursor, plain = self._starts_ns, self._cursor, self._plain
        stop = bisect_right(starts_ns, now_ns, cursor)
        self._cursor = stop
        if plain is None:
            due = zip(starts_ns[cursor:stop], self._starters[cursor:stop], strict=True)
            entered = [self._dispatch_first(*start) for start in due]
        elif stop == cursor + 1:
            entered = [plain.start_one(cursor, starts_ns[cursor])]
        else:
            entered = plain.start(cursor, starts_ns[cursor:stop])
        self.sequences += entered
        return entered

    def pop_first(self, count: int) -> list[Sequence]:
        """Dispatch the next `count` requests of independent traffic, by ready instant and session index."""
        first, stop = self._cursor, min(self._cursor + count, len(self._starts_ns))
        self._cursor = stop
        starts_ns = self._starts_ns[first:stop]
        if self._plain is not None:
            entered = self._plain.start(first, starts_ns)
        else:
            dispatch = self._dispatch_first
            entered = [dispatch(*due) for due in zip(starts_ns, self._starters[first:stop], strict=True)]
        self.sequences += entered
        return entered

    def on_terminal(self, sequence: Sequence, now_ns: int) -> None:
        """Take note that a request ended at `now_ns`; one that failed ends its session."""
        if self._in_flight and (conversation := self._in_flight.pop(sequence.ordinal, None)) is not None:
            if conversation.history is not None:
                sequence.keys = None  # as long as the history; nobody looks it up again
            if conversation.has_next and sequence.status != FAILED:
                self._schedule_next_turn(conversation, sequence, now_ns)
                return
        if self._waiting < self._session_count:
            self._starts_ns.append(now_ns)
            self._starters.append(self._waiting)
            self._waiting += 1

    @property
    def extremes(self) -> tuple[int, int, int] | None:
        """The longest prompt, the least and the most output of all requests, if that is easily told."""
        return None if self._plain is None else self._plain.extremes

    def waiting_requests(self, tidy_up: Callable[[], None]) -> Iterator[Sequence]:
        """Dispatch the requests that wait for a slot one by one, in place of `on_terminal`.

        Only of requests that are easily made (`extremes`): some at a time, and `tidy_up` is called before.
        Whoever takes one says when it arrives.
        """
        return chain.from_iterable(self._made_ahead(tidy_up))

    def _made_ahead(self, tidy_up: Callable[[], None]) -> Iterator[list[Sequence]]:
        plain, first = self._plain, self._waiting
        while plain is not None and first < self._session_count:
            tidy_up()
            stop = min(first + _MADE_AHEAD, self._session_count)
            self._starters += whole_numbers("q", first, stop)
            made = plain.start(first, array("q", bytes(8 * (stop - first))))
            self.sequences += made
            yield made
            first = stop

    def took_places(self, now_ns: int) -> None:
        """Hear, if it `is_told`, that others took the places of all who ended at `now_ns`."""

    def replace(self, now_ns: int) -> Sequence | None:
        """Dispatch the request that takes the place of one that ended now, in place of `on_terminal`.

        None if that is not all that follows, or nothing follows: then the end has to be told.
        """
        index, number, plain = self._waiting, self._cursor, self._plain
        if plain is None or index >= self._session_count or number < len(self._starts_ns):
            return None
        self._starts_ns.append(now_ns)
        self._starters.append(index)
        self._waiting = index + 1
        self._cursor = number + 1
        sequence = plain.start_one(number, now_ns)
        self.sequences.append(sequence)
        return sequence

    def _prepare_content(self, workload: Workload, block_tokens: int) -> None:
        self._stride = 1
        self._speller: PromptSpeller | None = None
        self._private = PrivateTokens() if workload.accumulate else None
        if ids_are_keys(workload, block_tokens):
            self._stride = workload.content_block_tokens // block_tokens
        else:
            self._speller = PromptSpeller(workload.content_block_tokens, block_tokens)

    def _schedule_open_loop(self) -> None:
        require_arrivals(self._sessions)
        if isinstance(self._sessions, PlainSessions):
            self._starts_ns, self._starters = self._sessions.schedule()
            return
        starts_ns = array("q", (clock_ns(session.arrival_ms or 0.0) for session in self._sessions))
        order = sorted(range(len(starts_ns)), key=starts_ns.__getitem__)
        self._starts_ns = array("q", map(starts_ns.__getitem__, order))
        self._starters = array("q", order)

    def _fill_slots(self, concurrency: int) -> None:
        if concurrency < 1:
            raise InputError(f"concurrency must be at least 1, got {concurrency}")
        self._waiting = min(concurrency, len(self._sessions))
        self._starts_ns = array("q", bytes(8 * self._waiting))
        self._starters = whole_numbers("q", 0, self._waiting)

    def _pop_merged(self, now_ns: int) -> list[Sequence]:
        due: list[tuple[int, int, _Conversation | None]] = []
        while self._later and self._later[0][0] <= now_ns:
            due.append(heappop(self._later))
        while self._cursor < len(self._starts_ns) and self._starts_ns[self._cursor] <= now_ns:
            due.append((self._starts_ns[self._cursor], self._starters[self._cursor], None))
            self._cursor += 1
        due.sort(key=_ready_order)
        entered = [
            self._dispatch_first(ready_ns, index)
            if conversation is None
            else self._dispatch_turn(conversation, ready_ns)
            for ready_ns, index, conversation in due
        ]
        self.sequences += entered
        return entered

    def _dispatch_first(self, ready_ns: int, index: int) -> Sequence:
        session = self._sessions[index]
        arrival_ms = session.arrival_ms
        if arrival_ms is None or self._closed_loop:
            arrival_ms = to_ms(ready_ns)
        turns = session.turns
        if len(turns) > 1:
            return self._dispatch_turn(self._open_conversation(index, session, arrival_ms), ready_ns)
        turn = turns[0]
        # The engine looks keys up, slices and compares them, which arrays do as well among themselves.
        keys: list[int] | None = turn.block_ids  # type: ignore[assignment]
        planned = False
        if self._speller is not None:
            keys, planned = self._own_content(turn)
        return Sequence(
            next(self._ordinals),
            Origin(turn, session, session.turn_offset, arrival_ms),
            ready_ns,
            turn.input_tokens,
            turn.output_tokens,
            keys,
            self._stride,
            planned,
        )

    def _open_conversation(self, index: int, session: Session, arrival_ms: float) -> _Conversation:
        history = None
        if self._private is not None and self._speller is not None:
            history = History(self._speller, self._private)
        return _Conversation(index, session, history, arrival_ms=arrival_ms)

    def _dispatch_turn(self, conversation: _Conversation, ready_ns: int) -> Sequence:
        session, number, history = conversation.session, conversation.number, conversation.history
        turn = session.turns[number]
        if history is None:
            input_tokens = turn.input_tokens
            keys, planned = self._own_content(turn)
        else:
            keys, planned = history.begin_turn(turn, is_last=number + 1 == len(session.turns))
            input_tokens = history.tokens
        offset = session.turn_offset
        turn_index = None if offset is None else offset + number
        sequence = Sequence(
            next(self._ordinals),
            Origin(turn, session, turn_index, conversation.arrival_ms),
            ready_ns,
            input_tokens,
            turn.output_tokens,
            keys,
            self._stride,
            planned,
        )
        self._in_flight[sequence.ordinal] = conversation
        return sequence

    def _own_content(self, turn: Turn) -> tuple[list[int] | None, bool]:
        """Keys of a turn without history, and whether they cover its planned output too."""
        if self._speller is None or turn.block_ids is None:
            return turn.block_ids, False  # type: ignore[return-value]
        return self._speller.spell(turn), turn.output_ids is not None

    def _schedule_next_turn(self, conversation: _Conversation, ended: Sequence, now_ns: int) -> None:
        if conversation.history is not None and ended.status == COMPLETED:
            conversation.history.end_turn(ended.turn, ended.emitted_tokens)
        conversation.number += 1
        delay_ms = conversation.session.turns[conversation.number].delay_ms
        conversation.arrival_ms = to_ms(now_ns) + delay_ms
        heappush(self._later, (now_ns + clock_ns(delay_ms), conversation.index, conversation))


def _ready_order(item: tuple[int, int, _Conversation | None]) -> tuple[int, int]:
    return item[0], item[1]
