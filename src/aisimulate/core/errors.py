"""The exception tree. Everything the package raises on purpose descends from `AISimulateError`."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from aisimulate.core.shown import cut, visible

if TYPE_CHECKING:
    from collections.abc import Iterable


_MAX_TEXT_CHARS = 4000
# Names longer than this are no slip of the pen, and comparing them takes long.
_MAX_NAME_CHARS = 200
_LEAST_PREFIX_CHARS = 3


class AISimulateError(Exception):
    """Base of every error this package raises on purpose; its text is one line for a user."""

    def __str__(self) -> str:
        return cut(visible(self._text().strip()), _MAX_TEXT_CHARS)

    def _text(self) -> str:
        return super().__str__()


class InputError(AISimulateError, ValueError):
    """The user's input is wrong: names the place, the value and the rule (exit code 2)."""


class UnsupportedError(InputError):
    """The input is legal but asks for something this version cannot simulate."""


class TimingError(AISimulateError, RuntimeError):
    """A timing provider could not price a pass or estimate a capacity."""


class ReplayError(AISimulateError, RuntimeError):
    """A replay could not be carried out although its input was accepted."""


class InvariantError(ReplayError):
    """A replay broke a rule that every replay keeps: a defect of the simulator, not of its input."""


class Terminated(SystemExit):
    """SIGTERM has come. A search ends in order and tells what it has; what does not know it just ends."""


def nearest(name: str, legal: Iterable[str], cutoff: float = 0.6) -> str:
    """Return `"; did you mean 'x'?"` for the legal name closest to `name`, or an empty string.

    A name that is `name` in another case, or begins with its words, is closest; among the others `cutoff`
    is the least likeness (0..1) worth a suggestion.
    """
    if len(name) > _MAX_NAME_CHARS:
        return ""
    names = list(legal)
    matches = _begun(name, names) or get_close_matches(name, names, n=1, cutoff=cutoff)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def _begun(name: str, legal: Iterable[str]) -> list[str]:
    """List the legal names that begin with `name` as whole words, in any case; the shortest first."""
    start = name.casefold()
    if len(start) < _LEAST_PREFIX_CHARS:
        return [other for other in legal if other.casefold() == start]
    found = [other for other in legal if other.casefold().startswith(start)]
    return sorted((other for other in found if not other[len(start) : len(start) + 1].isalnum()), key=len)


def cause_chain(error: BaseException) -> str:
    """Join the messages of `error` and of its causes by `": "`, outermost first, on one line.

    What a message already ends with is not said twice.
    """
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None:
        text = visible(str(current).strip()) or type(current).__name__
        if not any(f": {part}".endswith(f": {text}") for part in parts):
            parts.append(text)
        current = current.__cause__
    return ": ".join(parts)
