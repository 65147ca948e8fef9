"""How much of the prompts of a trace came before: what a KV cache that forgets nothing could reuse."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.core.traffic import BlockIds, Turn

_Ints: TypeAlias = npt.NDArray[np.int64]


def ideal_reuse_tokens(turns: Sequence[Turn], block_tokens: int) -> _Ints | None:
    """Give for each prompt the tokens that it shares with one before it, from its start; in order of time.

    At least one token of a prompt is new, as an engine computes it. None when no prompt has content ids.
    """
    if all(turn.block_ids is None for turn in turns):
        return None
    prompts = _Prompts(turns, block_tokens)
    reused = np.zeros(len(turns), np.int64)
    rows = np.arange(len(turns), dtype=np.int64)
    groups = np.zeros(len(turns), np.int64)  # rows of one group have agreed in all blocks so far
    depth = 0
    while len(rows):
        kept = prompts.blocks[rows] > depth
        rows, groups = rows[kept], groups[kept]
        groups = _regrouped(groups, prompts.ids(rows, depth))
        reused[rows] += _shared(groups, prompts.filled(rows, depth), block_tokens)
        together = np.bincount(groups, minlength=1)[groups] > 1
        rows, groups = rows[together], groups[together]
        depth += 1
    return np.minimum(reused, prompts.tokens - 1)


class _Prompts:
    """The content of all prompts, one after the other."""

    def __init__(self, turns: Sequence[Turn], block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self.tokens: _Ints = np.array([turn.input_tokens for turn in turns], np.int64)
        self.blocks: _Ints = np.array([len(turn.block_ids or ()) for turn in turns], np.int64)
        # Blocks that hold nothing of the prompt do not count.
        self._flat = _joined([turn.block_ids for turn in turns if turn.block_ids is not None])
        self._starts = np.cumsum(self.blocks) - self.blocks
        self.blocks = np.minimum(self.blocks, -(-self.tokens // block_tokens))

    def ids(self, rows: _Ints, depth: int) -> npt.NDArray[np.unsignedinteger]:
        """Content ids of block `depth` of some prompts."""
        picked: npt.NDArray[np.unsignedinteger] = self._flat[self._starts[rows] + depth]
        return picked

    def filled(self, rows: _Ints, depth: int) -> _Ints:
        """Tokens of the prompts in block `depth`."""
        return np.minimum(self.tokens[rows] - depth * self._block_tokens, self._block_tokens)


def _joined(prompts: list[BlockIds]) -> npt.NDArray[np.unsignedinteger]:
    narrow = all(isinstance(ids, array) and ids.typecode == "I" for ids in prompts)
    flat = array("I" if narrow else "Q")
    for ids in prompts:
        flat.extend(ids if narrow else iter(ids))
    return np.frombuffer(flat, np.uint32 if narrow else np.uint64)


def _regrouped(groups: _Ints, ids: npt.NDArray[np.unsignedinteger]) -> _Ints:
    """Split groups by the ids of the next block; the new groups are numbered from 0."""
    numbers = np.unique(ids, return_inverse=True)[1]
    return np.unique(groups << 32 | numbers, return_inverse=True)[1].astype(np.int64)


def _shared(groups: _Ints, filled: _Ints, block_tokens: int) -> _Ints:
    """Tokens of a block that an earlier row of the same group has too."""
    order = np.argsort(groups, kind="stable")
    base = groups[order] * (block_tokens + 1)
    most = np.maximum.accumulate(base + filled[order])  # groups ascend, so each starts anew
    earlier = np.concatenate([[0], most[:-1]]) - base  # negative at the first row of a group
    shared = np.empty_like(filled)
    shared[order] = np.clip(earlier, 0, filled[order])
    return shared
