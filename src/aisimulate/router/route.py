"""What a router decided about a request, for its record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Route:
    """Prefix blocks known to be cached where a request went, and the most that any worker had.

    `queued_ns` and `released_ns` if it had to wait at the router.
    """

    selected_blocks: int
    best_blocks: int
    block_size: int
    queued_ns: int | None = None
    released_ns: int | None = None

    @property
    def overlap_tokens(self) -> int:
        """Prompt tokens in the blocks that the router expected to be cached."""
        return self.selected_blocks * self.block_size


Routes = dict[str, "dict[int, Route] | None"]
"""Routes by pool and request number; None where nobody wants records."""
