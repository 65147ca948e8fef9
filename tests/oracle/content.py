"""What a request's tokens are, and the identity of the KV blocks cut from them (spec 01 section 4.1)."""

from __future__ import annotations

from typing import TypeAlias

# Trace and planned tokens are ints; tokens that nobody else can have are tuples naming their origin.
Token: TypeAlias = int | tuple[object, ...]


class Identities:
    """Numbers block contents: two blocks share a number exactly if they and all their ancestors are equal."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int | None, tuple[Token, ...]], int] = {}

    def of(self, tokens: list[Token], block_size: int) -> list[int]:
        """Identities of the full blocks of `tokens`, first to last."""
        chain: list[int] = []
        parent: int | None = None
        for end in range(block_size, len(tokens) + 1, block_size):
            content = (parent, tuple(tokens[end - block_size : end]))
            parent = self._numbers.setdefault(content, len(self._numbers))
            chain.append(parent)
        return chain


def cut_blocks(block_ids: list[Token], block_tokens: int, length: int) -> list[Token]:
    """Spell out a prompt: every id stands for `block_tokens` equal tokens, the last block is cut."""
    return [token for token in block_ids for _ in range(block_tokens)][:length]
