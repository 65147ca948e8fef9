"""BLAKE3 of whole byte strings, with 32 bytes of output (specification of 2020, section 2).

Identities of agentic traces are BLAKE3 digests, which the standard library does not have. All chunks of a
text are hashed side by side in numpy, so a text of some megabytes takes a fraction of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy.typing as npt

    Words: TypeAlias = npt.NDArray[np.uint32]

_IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
_PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_ROUNDS = 7
_CHUNK_BYTES, _BLOCK_BYTES, _BLOCKS = 1024, 64, 16
_CHUNK_START, _CHUNK_END, _PARENT, _ROOT = 1, 2, 4, 8
# Columns, then diagonals, of the 4 x 4 state.
_MIXES = (
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)


def digest(data: bytes) -> bytes:
    """Hash `data`; 32 bytes."""
    chunks = max(1, -(-len(data) // _CHUNK_BYTES))
    if chunks == 1:
        values = _chunk_values(data, 1, _ROOT)
    else:
        values = _chunk_values(data, chunks, 0)
        while values.shape[1] > 1:
            values = _parents(values, _ROOT if values.shape[1] == 2 else 0)
    return values[:, 0].astype("<u4").tobytes()


def _chunk_values(data: bytes, chunks: int, root: int) -> Words:
    """Chaining values of all chunks, one column each; `root` marks the last block of an only chunk."""
    padded = np.zeros(chunks * _CHUNK_BYTES, dtype=np.uint8)
    padded[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    words = padded.view("<u4").astype(np.uint32).reshape(chunks, _BLOCKS, 16)
    tail_bytes = len(data) - (chunks - 1) * _CHUNK_BYTES
    tail_blocks = max(1, -(-tail_bytes // _BLOCK_BYTES))
    counters = np.arange(chunks, dtype=np.uint64)
    values = np.repeat(np.array(_IV, dtype=np.uint32)[:, None], chunks, axis=1)
    for block in range(_BLOCKS):
        # Only the last chunk may end early.
        live = chunks if block < tail_blocks else chunks - 1
        if live == 0:
            break
        sizes = np.full(live, _BLOCK_BYTES, dtype=np.uint32)
        flags = np.full(live, _CHUNK_START if block == 0 else 0, dtype=np.uint32)
        if block == _BLOCKS - 1:
            flags |= np.uint32(_CHUNK_END)
        if live == chunks and block == tail_blocks - 1:
            sizes[-1] = tail_bytes - block * _BLOCK_BYTES
            flags[-1] |= np.uint32(_CHUNK_END | root)
        message = words[:live, block].T
        values[:, :live] = _compress(values[:, :live], message, counters[:live], sizes, flags)
    return values


def _parents(values: Words, root: int) -> Words:
    """Join neighbours pairwise; an odd last one moves up as it is, which keeps left subtrees full."""
    pairs = values.shape[1] // 2
    message = np.concatenate((values[:, 0 : 2 * pairs : 2], values[:, 1 : 2 * pairs : 2]))
    joined = _compress(
        np.repeat(np.array(_IV, dtype=np.uint32)[:, None], pairs, axis=1),
        message,
        np.zeros(pairs, dtype=np.uint64),
        np.full(pairs, _BLOCK_BYTES, dtype=np.uint32),
        np.full(pairs, _PARENT | root, dtype=np.uint32),
    )
    return np.concatenate((joined, values[:, 2 * pairs :]), axis=1)


def _compress(
    values: Words, message: Words, counters: npt.NDArray[np.uint64], sizes: Words, flags: Words
) -> Words:
    """Compress one block per column into new chaining values."""
    state = np.empty((16, values.shape[1]), dtype=np.uint32)
    state[:8] = values
    state[8:12] = np.array(_IV[:4], dtype=np.uint32)[:, None]
    state[12] = (counters & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    state[13] = (counters >> np.uint64(32)).astype(np.uint32)
    state[14], state[15] = sizes, flags
    order = list(range(16))
    for _ in range(_ROUNDS):
        for step, (a, b, c, d) in enumerate(_MIXES):
            _mix(state, (a, b, c, d), message[order[2 * step]], message[order[2 * step + 1]])
        order = [order[source] for source in _PERMUTATION]
    result: Words = state[:8] ^ state[8:]
    return result


def _mix(state: Words, cells: tuple[int, int, int, int], first: Words, second: Words) -> None:
    a, b, c, d = cells
    for word, right_d, right_b in ((first, 16, 12), (second, 8, 7)):
        state[a] += state[b] + word
        state[d] = _rotated(state[d] ^ state[a], right_d)
        state[c] += state[d]
        state[b] = _rotated(state[b] ^ state[c], right_b)


def _rotated(words: Words, right: int) -> Words:
    rotated: Words = (words >> np.uint32(right)) | (words << np.uint32(32 - right))
    return rotated
