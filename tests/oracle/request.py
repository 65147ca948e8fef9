"""A request and everything that happened to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .content import Token
from .pool import Block


@dataclass(eq=False)
class Request:
    """One turn on its way through the fleet; instants are whole ns.

    `tokens` grows as tokens are emitted. `output` is what is to be emitted, if there is room for all of it.
    """

    session_id: str
    turn_index: int | None
    arrival_ns: int
    tokens: list[Token]
    output: list[Token]
    number: int = 0  # dispatch order
    isl: int = 0
    scheduler: int = 0  # flat (worker, rank) index
    computed: int = 0  # tokens
    most_computed: int = 0  # tokens, preemptions not taken off
    blocks: list[Block] = field(default_factory=list)
    preempted: bool = False
    decoding: bool = False  # emitted a token since its last admission
    hopeless: bool = False  # it outgrows the pool although nothing else is in it
    bursts: Iterator[int] | None = None  # tokens of its decode forwards still to come
    admissions: list[tuple[int, int]] = field(default_factory=list)  # (instant, reused tokens)
    token_ns: list[int] = field(default_factory=list)  # instant of every emitted token
    terminal_ns: int | None = None
    status: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        self.isl = len(self.tokens)

    @property
    def length(self) -> int:
        """Known tokens: prompt plus generated so far."""
        return len(self.tokens)

    @property
    def emitted(self) -> int:
        """Tokens generated so far."""
        return len(self.token_ns)

    def emit(self, now_ns: int) -> None:
        """Append the next output token."""
        self.tokens.append(self.output[self.emitted])
        self.token_ns.append(now_ns)
        self.decoding = True

    def end(self, now_ns: int, status: str, reason: str | None = None) -> None:
        """Reach the terminal state."""
        self.terminal_ns, self.status, self.reason = now_ns, status, reason
