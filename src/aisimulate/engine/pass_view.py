"""What can be seen of a rank: the pass it begins, its gauges, and what its blocks are counted from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence


class Chunk(NamedTuple):
    """Tokens [start, end) of a prompt (after a preemption also of what it generated) computed in a pass."""

    sequence: Sequence
    start: int
    end: int


@dataclass(slots=True)
class RankPass:
    """One pass, or the first pass of a run in which only `decode_context` grows.

    `decode_batch` sequences decode, `decode_context` tokens long together when the pass begins. Beside them
    `prefills` are computed, and `replays`: what was generated before a preemption, behind the prompt.
    At its start some were `admitted`, `preempted` and `rejected`; `dequeued` are those that left the queue by
    being computed. `cached`: those that were admitted with nothing of their prompt to compute, and decode.
    """

    rank: int
    decode_batch: int
    decode_context: int
    prefills: list[Chunk] = field(default_factory=list)
    replays: list[Chunk] = field(default_factory=list)
    admitted: list[Sequence] = field(default_factory=list)
    dequeued: list[Sequence] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)
    rejected: list[Sequence] = field(default_factory=list)
    cached: list[Sequence] = field(default_factory=list)
    dropped: list[Chunk] = field(default_factory=list)  # of those preempted once the pass was priced
    verified: int = 0  # with drafts: prompts whose first tokens come from the decode forward too

    @property
    def prefill_tokens(self) -> int:
        """Tokens of all prefills."""
        return sum(chunk.end - chunk.start for chunk in self.prefills)

    @property
    def tokens(self) -> int:
        """Tokens computed in the pass: one for each decoder, and those of all chunks."""
        return self.decode_batch + sum(end - start for _, start, end in (*self.prefills, *self.replays))

    @property
    def forwards(self) -> int:
        """Sequences that decode in one such pass; those that a prefill ends with a burst do not count."""
        replayed = sum(end == sequence.tokens for sequence, _, end in self.replays)
        return self.decode_batch + len(self.cached) + replayed


class Gauges(NamedTuple):
    """Blocks held by requests (`active`) and cached for later (`inactive`) of `total`; requests."""

    active_blocks: int
    inactive_blocks: int
    total_blocks: int
    running_requests: int
    waiting_requests: int


class BlockAudit(NamedTuple):
    """Blocks that requests hold, blocks cached for nobody, and how many things were looked at."""

    held: int
    cached: int
    steps: int
