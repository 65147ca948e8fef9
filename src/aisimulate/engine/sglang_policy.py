"""The order of an SGLang queue under the policy lpm: longest cached prefix first (spec 01 section 3.3)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.sglang_scheduler import SglangScheduler

_LONGEST_SORTED_QUEUE = 128
# Of waiting prompts that have no more than this cached but have so much in common, the first goes first.
_STEM_TOKENS = 32


def sort_waiting(rank: SglangScheduler) -> None:
    """Sort the queue, unless it is too long to be sorted."""
    waiting = rank.waiting
    if not 1 < len(waiting) <= _LONGEST_SORTED_QUEUE:
        return
    pool = rank.pool
    stem_pages = -(-_STEM_TOKENS // pool.page_size)
    stems: set[tuple[int, ...]] = set()
    order: dict[Sequence, tuple[bool, int]] = {}
    for sequence in waiting:
        matched = pool.match(sequence, sequence.tokens // pool.page_size)[0]
        follows = False
        keys, has_stem = sequence.keys, stem_pages * pool.page_size <= sequence.input_tokens
        if matched * pool.page_size <= _STEM_TOKENS and has_stem and keys is not None:
            stem = tuple(keys[: -(-stem_pages // pool.stride)])
            follows = stem in stems
            stems.add(stem)
        order[sequence] = follows, -matched
    rank.waiting = deque(sorted(waiting, key=order.__getitem__))
