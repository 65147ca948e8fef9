"""What prefix caches of ranks hold of the prompts that reach them, by the order of requests alone."""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from math import log2
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_STEPS_PER_OCTAVE = 4  # sizes of caches are told apart by a fifth


class ReuseTable:
    """Reused tokens of every request, for caches that forget who was used least recently."""

    def __init__(
        self, ids: Sequence[Sequence[int]] | None, prompts: Ints, turns: Ints, block_tokens: int
    ) -> None:
        self._ids = ids
        self._prompts = prompts
        self._turns = turns
        self._block_tokens = block_tokens
        self._reused = lru_cache(maxsize=None)(self._serve)

    def reused_tokens(self, ranks: int, kv_tokens: int) -> Ints:
        """Return the tokens found when requests go to `ranks` caches of `kv_tokens` in turn."""
        if self._ids is None:
            return np.zeros(len(self._prompts), dtype=np.int64)
        return self._reused(ranks, self.coarse(kv_tokens) // self._block_tokens)

    def coarse(self, kv_tokens: int) -> int:
        """Round a size of a cache to one of those that are told apart."""
        blocks = max(1, kv_tokens // self._block_tokens)
        return round(2 ** (round(_STEPS_PER_OCTAVE * log2(blocks)) / _STEPS_PER_OCTAVE)) * self._block_tokens

    def _serve(self, ranks: int, blocks: int) -> Ints:
        assert self._ids is not None
        caches: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(ranks)]
        lanes = (self._turns % ranks).tolist()
        hits = [_serve_one(caches[lane], ids, blocks) for lane, ids in zip(lanes, self._ids, strict=True)]
        found = np.array(hits, dtype=np.int64) * self._block_tokens
        return np.minimum(found, self._prompts - 1)


def _serve_one(cache: OrderedDict[int, None], ids: Sequence[int], blocks: int) -> int:
    """Return how many of the first blocks are there, then keep all of them."""
    hits = 0
    for key in ids:
        if key not in cache:
            break
        hits += 1
    for key in reversed(ids):  # the end of a prompt is forgotten first
        cache[key] = None
        cache.move_to_end(key)
    while len(cache) > blocks:
        cache.popitem(last=False)
    return hits
