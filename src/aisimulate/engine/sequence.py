"""A request inside the engine: its scheduling state and everything that happened to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from aisimulate.core.traffic import Session, Turn
    from aisimulate.engine.handoff import Handoff
    from aisimulate.engine.radix_node import RadixNode
    from aisimulate.engine.run_pool import Node

COMPLETED = "completed"
REJECTED = "rejected"
FAILED = "failed"  # refused by the decode worker after its prefill

EVERY_BLOCK = 1 << 62  # of a prompt, whatever its length


class Origin(NamedTuple):
    """What the traffic says of one request: its turn and session, and when it comes, in ms as authored."""

    turn: Turn
    session: Session
    turn_index: int | None
    arrival_ms: float

    def of(self, sequence: Sequence) -> Origin:
        """Give the origin of the request that has it to itself."""
        del sequence
        return self

    @property
    def dp_rank(self) -> int | None:
        """The rank that the request names."""
        return self.turn.dp_rank


class Origins(Protocol):
    """Where requests come from: an `Origin`, or one object for many of them."""

    def of(self, sequence: Sequence) -> Origin:
        """Give the origin of one of these requests."""
        ...

    @property
    def dp_rank(self) -> int | None:
        """The rank that all of them name."""
        ...


class Sequence:
    """One request on its way through a replay.

    Authored part: `origin`, `ordinal` (dispatch order, 0-based), `arrival_ns` on the clock, `input_tokens`
    (accumulated history included), `output_tokens` (requested).
    Content: `keys[p // stride]` identifies the content of full KV block p of prompt (and, with
    `planned`, of prompt plus output); `keys is None` means the prompt is shared with nobody, and
    `common_blocks` that nobody else has the blocks after so many.
    Outcome, times in ns or None: `admissions` (instant, reused tokens) per admission,
    `first_token_ns`, `second_token_ns`, `last_token_ns`, `terminal_ns`; `status` is None while unfinished;
    `emitted_tokens`; `reason` of a rejection; `worker` and `rank` it was placed on.
    """

    __slots__ = (
        "admissions",
        "arrival_ns",
        "base",
        "chunk_start",
        "computed",
        "decodes",
        "disk_reused_tokens",
        "end_tokens",
        "first_token_ns",
        "forwards",
        "handoff",
        "held_blocks",
        "host_reused_tokens",
        "input_tokens",
        "inserted",
        "joined",
        "keys",
        "last_pass",
        "last_token_ns",
        "leaf",
        "len",
        "lengths",
        "most_computed",
        "node",
        "order",
        "ordinal",
        "origin",
        "output_tokens",
        "planned",
        "rank",
        "reason",
        "second_token_ns",
        "segment_start",
        "segments",
        "shared",
        "stale",
        "status",
        "stride",
        "tail_start",
        "terminal_ns",
        "tokens",
        "touched_to",
        "worker",
    )

    # Set by whoever owns the sequence before it is read.
    # Of its first admission, from host memory, and of these what the disk had given to the host for it; only
    # set on ranks that have such memory.
    host_reused_tokens: int
    disk_reused_tokens: int
    worker: int
    rank: int
    computed: int  # tokens whose KV exists; only kept up to date until it decodes
    chunk_start: int  # computed length before the chunk of the pass in flight
    base: int  # length = passes done + base, while it decodes
    joined: int  # pass count when it began to decode
    order: int  # place in the running order
    handoff: Handoff  # from a prefill to a decode worker, in disaggregated serving only
    # In a radix tree only: the deepest node it locks, how many of its pages are in the tree, how many others
    # can ask for, and the pass count up to which the path was touched for it.
    leaf: RadixNode
    inserted: int
    shared: int
    touched_to: int
    # Kept by the scheduler that goes pass by pass.
    held_blocks: int
    decodes: bool  # emitted a token since its last admission
    forwards: int  # decode forwards so far
    last_pass: int  # pass count at the start of the pass that emitted its last token, -1 before the first
    lengths: list[int]  # at each number of forwards, from 0 to the end

    def __init__(
        self,
        ordinal: int,
        origin: Origins,
        arrival_ns: int,
        input_tokens: int,
        output_tokens: int,
        keys: list[int] | None,
        stride: int = 1,
        planned: bool = False,
        common_blocks: int = EVERY_BLOCK,
    ) -> None:
        self.ordinal = ordinal
        self.origin = origin
        self.arrival_ns = arrival_ns
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        self.keys = keys
        self.stride = stride
        self.planned = planned
        # Outcome.
        self.admissions: tuple[tuple[int, int], ...] = ()
        self.first_token_ns: int | None = None
        self.second_token_ns: int | None = None
        self.last_token_ns: int | None = None
        self.terminal_ns: int | None = None
        self.status: str | None = None
        self.reason: str | None = None
        # Scheduling state, owned by the rank the sequence is on.
        self.tokens = input_tokens  # known length: prompt + generated
        self.end_tokens = input_tokens + output_tokens  # length at which generation stops
        self.most_computed = 0  # before the last preemption, or any earlier one
        # KV blocks: the deepest shared node held, and a private tail of `len` full blocks from `tail_start`.
        # A copy of a cached block interrupts the chain of nodes; what is held before it is in `segments`,
        # as (deepest node, first block), and the current segment begins at block `segment_start`.
        self.node: Node | None = None
        self.segments: list[tuple[Node, int]] | None = None
        self.segment_start = 0
        self.tail_start = common_blocks  # until it is queued
        self.len = 0
        self.stale = 0

    def anew(self) -> Sequence:
        """Give the same request before anything became of it."""
        lengths = self.input_tokens, self.output_tokens
        return Sequence(
            self.ordinal, self.origin, self.arrival_ns, *lengths, self.keys, self.stride, self.planned
        )

    @property
    def turn(self) -> Turn:
        """What is asked for."""
        return self.origin.of(self).turn

    @property
    def session(self) -> Session:
        """The session it belongs to."""
        return self.origin.of(self).session

    @property
    def turn_index(self) -> int | None:
        """Its number in the session."""
        return self.origin.of(self).turn_index

    @property
    def arrival_ms(self) -> float:
        """When it comes, as authored."""
        return self.origin.of(self).arrival_ms

    @property
    def emitted_tokens(self) -> int:
        """Tokens generated and seen so far; exact once the sequence is terminal."""
        return self.tokens - self.input_tokens
