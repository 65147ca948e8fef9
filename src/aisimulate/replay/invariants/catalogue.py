"""The invariants and their numbers."""

from __future__ import annotations

from enum import Enum

from aisimulate.core.errors import InvariantError


class Invariant(Enum):
    """A rule that every replay keeps, by its number."""

    REQUESTS = "I1", "arrived = completed + rejected + unfinished requests"
    TOKENS = "I2", "a completed request emitted what it asked for, or what the model length leaves of it"
    BLOCKS = "I3", "free + cached + held blocks = capacity at every pass end, none negative"
    RELEASED = "I4", "when nothing runs any more, no block is held"
    CLOCK = "I5", "the clock never goes back"
    CAUSALITY = "I6", "arrival <= admission <= first token <= second <= last <= end of a request"
    ADMISSION = "I7", "a request is admitted at the start of a pass of its own rank"
    OVERLAP = "I8", "the passes of a worker do not overlap"
    LIMITS = "I9", "a pass keeps to max_num_seqs and max_num_batched_tokens"
    GAPS = "I10", "the gaps between tokens add up to the time from first to last token"
    TOTALS = "I11", "the totals of the report are the sums over its requests"
    STATISTICS = "I12", "statistics are finite, not negative, and in order"
    TIERS = "I13", "a block of host memory or disk is coming, pinned or idle, and they fit into its capacity"
    PLACEMENT = "I14", "a request is placed on a worker that is ready, and not about to leave"

    def __init__(self, number: str, meaning: str) -> None:
        self.number = number
        self.meaning = meaning

    def broken(self, where: str, values: str) -> InvariantError:
        """Make the error: number and rule, the request or worker, and what was found there."""
        return InvariantError(f"{self.number} broken ({self.meaning}): {where}: {values}")
