"""Sessions that accumulate: each prompt is everything said so far plus the turn's own text (spec 02 4.3)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from aisimulate.workload.content import TokenText

if TYPE_CHECKING:
    from aisimulate.core.traffic import Turn
    from aisimulate.workload.content import PromptSpeller


class PrivateTokens:
    """Hands out token ids that occur nowhere else: authored ids are never negative."""

    def __init__(self) -> None:
        self._ids = count(-1, -1)

    def next(self) -> int:
        """Give the next unused id."""
        return next(self._ids)


class History:
    """What one session has said: prompts of all its turns and the emitted part of finished outputs."""

    __slots__ = ("_output_token", "_private", "_speller", "_text", "tokens")

    def __init__(self, speller: PromptSpeller, private: PrivateTokens) -> None:
        self._speller = speller
        self._private = private
        self._text = TokenText(speller.table)
        self._output_token = 0
        self.tokens = 0

    def begin_turn(self, turn: Turn, is_last: bool) -> tuple[list[int], bool]:
        """Append the turn's own prompt; return the keys, and whether they cover the output as well.

        Only the last turn may leave its output out: nobody reads it then, unless it is planned.
        """
        self._speller.append_prompt(self._text, turn, self._private.next())
        self._output_token = self._private.next()
        self.tokens += turn.input_tokens
        if is_last and turn.output_ids is None:
            return self._text.keys, False
        draft = self._text.fork()
        self._append_output(draft, turn, turn.output_tokens)
        return draft.keys, True

    def end_turn(self, turn: Turn, emitted_tokens: int) -> None:
        """Append the emitted part of the turn's output."""
        self._append_output(self._text, turn, emitted_tokens)
        self.tokens += emitted_tokens

    def _append_output(self, text: TokenText, turn: Turn, tokens: int) -> None:
        if turn.output_ids is None:
            text.append_run(self._output_token, tokens)
        else:
            text.append_tokens(turn.output_ids[:tokens])
