"""From a prompt's content to the keys of its KV blocks.

Two full blocks get the same key exactly when their token strings are equal, so two prompts share a
prefix of keys exactly where their token strings share full blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.workload.plain import PlainSessions

if TYPE_CHECKING:
    from aisimulate.core.traffic import BlockIds, Turn, Workload


_TOKEN_BITS = 66  # of a token without its sign


def ids_are_keys(workload: Workload, block_tokens: int) -> bool:
    """Tell whether content ids serve as keys as they are, one for several engine blocks.

    That is so when engine blocks of `block_tokens` divide content blocks and no token is spelled out or
    appended: engine block p then lies inside content block p // (content block / engine block).
    """
    return (
        workload.content_block_tokens % block_tokens == 0
        and not workload.accumulate
        and (isinstance(workload.sessions, PlainSessions) or not _has_planned_output(workload))
    )


def _has_planned_output(workload: Workload) -> bool:
    return any(turn.output_ids is not None for session in workload.sessions for turn in session.turns)


class KeyTable:
    """Gives each distinct token block a number of its own.

    A block of one or two runs of equal tokens, as content ids make them, is spelled by its number, so that
    only other blocks must be remembered. Tokens are at most 64 bits wide, negative ones no wider. Keys are
    never negative: those numbers are left to content that has no key (`RadixPool`).
    """

    __slots__ = ("_others", "block_tokens")

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._others: dict[tuple[int, ...], int] = {}

    def run_key(self, token: int) -> int:
        """Give the key of a block that holds one token only."""
        return _unsigned(token) << 1

    def key(self, block: tuple[int, ...]) -> int:
        """Give the key of a block of `block_tokens` tokens."""
        first, last, size = block[0], block[-1], len(block)
        if size > 2 and first != block[1] and last != block[-2]:
            return self._other(block)  # at least three runs
        lead = block.count(first)
        if lead == size:
            return self.run_key(first)
        if lead + block.count(last) == size and block.index(last) == lead:
            runs = (_unsigned(first) << _TOKEN_BITS | _unsigned(last)) * size + lead
            return runs << 1 | 1
        return self._other(block)

    def _other(self, block: tuple[int, ...]) -> int:
        number = self._others.setdefault(block, len(self._others))
        return number * self.block_tokens << 1 | 1  # as if the first of two runs had no token


class TokenText:
    """A growing token string: the keys of its full blocks, and the tokens of the open last block."""

    __slots__ = ("_table", "_tail", "keys")

    def __init__(self, table: KeyTable) -> None:
        self._table = table
        self._tail: list[int] = []
        self.keys: list[int] = []

    def fork(self) -> TokenText:
        """Copy the text, so that the copy can grow on its own."""
        copy = TokenText(self._table)
        copy.keys = self.keys.copy()
        copy._tail = self._tail.copy()
        return copy

    def append_tokens(self, tokens: list[int]) -> None:
        """Append tokens spelled out one by one."""
        size, key = self._table.block_tokens, self._table.key
        text = self._tail + tokens
        full = len(text) - len(text) % size
        self.keys += [key(tuple(text[start : start + size])) for start in range(0, full, size)]
        self._tail = text[full:]

    def append_run(self, token: int, times: int) -> None:
        """Append one token `times` times; the cost does not grow with the number of blocks."""
        size, tail = self._table.block_tokens, self._tail
        if tail:
            missing = size - len(tail)
            if times < missing:
                self._tail = tail + [token] * times
                return
            self.keys.append(self._table.key((*tail, *[token] * missing)))
            times -= missing
        blocks, rest = divmod(times, size)
        if blocks:
            self.keys += [self._table.run_key(token)] * blocks
        self._tail = [token] * rest

    def append_blocks(self, ids: BlockIds, content_block_tokens: int, tokens: int) -> None:
        """Append content blocks, id k standing for that many tokens k, cut after `tokens` tokens."""
        if content_block_tokens == 1:
            self.append_tokens(list(ids[:tokens]))
            return
        for start, token in zip(range(0, tokens, content_block_tokens), ids, strict=False):
            self.append_run(token, min(content_block_tokens, tokens - start))


class PromptSpeller:
    """Spells single prompts of a workload whose ids are not keys (see `ids_are_keys`)."""

    __slots__ = ("_content_block_tokens", "table")

    def __init__(self, content_block_tokens: int, block_tokens: int) -> None:
        self._content_block_tokens = content_block_tokens
        self.table = KeyTable(block_tokens)

    def append_prompt(self, text: TokenText, turn: Turn, private_token: int) -> None:
        """Append a turn's own prompt; content that nobody shares is spelled as a private token."""
        if turn.block_ids is None:
            text.append_run(private_token, turn.input_tokens)
        else:
            text.append_blocks(turn.block_ids, self._content_block_tokens, turn.input_tokens)

    def spell(self, turn: Turn) -> list[int] | None:
        """Keys of a prompt and of its planned output, if it has one; None when nobody shares them."""
        if turn.block_ids is None:
            return None
        text = TokenText(self.table)
        text.append_blocks(turn.block_ids, self._content_block_tokens, turn.input_tokens)
        text.append_tokens(turn.output_ids or [])
        return text.keys


def _unsigned(token: int) -> int:
    """Number the tokens 0, -1, 1, -2, .. from 0."""
    return token << 1 if token >= 0 else ~(token << 1)
