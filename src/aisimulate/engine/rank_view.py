"""What watching needs of a rank, whatever its scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from aisimulate.engine.pass_view import BlockAudit, Gauges, RankPass
    from aisimulate.engine.sequence import Sequence


class RankView(Protocol):
    """One rank, seen from outside. `mark()` has to be called before each plan, `read()` after it."""

    @property
    def has_work(self) -> bool:
        """Whether it takes part in the next pass."""
        ...

    @property
    def run_batch(self) -> int:
        """Decoders of the run in flight; 0 when a single pass is in flight."""
        ...

    @property
    def waiting_lengths(self) -> list[int]:
        """Tokens of the sequences in the queue, and of the prompts that are expected."""
        ...

    @property
    def max_model_len(self) -> int | None:
        """Most tokens of a sequence."""
        ...

    @property
    def free_blocks(self) -> int:
        """Blocks that hold nothing, by the rank's own counter."""
        ...

    @property
    def kept_blocks(self) -> int:
        """Most blocks that are held for requests that do not run yet."""
        ...

    @property
    def extra_tokens(self) -> int:
        """Tokens that the last pass yielded beyond one for each forward: those of accepted drafts."""
        ...

    @property
    def is_steady(self) -> bool:
        """Whether the gauges inside the run in flight follow from those at its start."""
        ...

    def mark(self) -> None:
        """Remember what `read` compares with."""
        ...

    def read(self, now_ns: int) -> RankPass:
        """Describe what was planned at `now_ns`."""
        ...

    def decode_lengths(self, work: RankPass) -> list[int]:
        """Lengths at the start of the pass that just began of those that decode or replay in it."""
        ...

    def is_decoding(self, sequence: Sequence) -> bool:
        """Whether a sequence decodes in the next pass."""
        ...

    def limits(self, work: RankPass) -> tuple[int, int]:
        """Give the most sequences and the most tokens of such a pass."""
        ...

    def gauges(self, run_passes: int = 0) -> Gauges:
        """Read the rank as it is; in a run, as it will be when its first passes took their blocks."""
        ...

    def gauges_in_pass(self, passes: int) -> Gauges:
        """Read the rank inside of pass number `passes` of those in flight: who ends with it is gone."""
        ...

    def audit(self) -> BlockAudit:
        """Count the blocks between two passes from what requests and cache hold, not by the counters."""
        ...

    def tier_problem(self) -> str | None:
        """Tell what does not add up in the memory behind the GPU, if there is any."""
        ...
