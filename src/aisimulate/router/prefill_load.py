"""The prompt tokens that each target still has to compute, as its router counts them (spec 03 section A4).

With predicted durations the oldest prefill of a target counts less and less: it is the anchor, and its clock
starts when it becomes that.
"""

from __future__ import annotations

from math import ceil, floor


class PrefillLoads:
    """Prefill tokens per target: what was added and has not been taken away."""

    __slots__ = ("tokens",)

    def __init__(self) -> None:
        self.tokens: list[int] = []

    def add_target(self) -> None:
        """Make room for one more target."""
        self.tokens.append(0)

    def add(self, target: int, request: int, tokens: int, duration_ns: int, now_ns: int) -> None:
        """Count the prefill of a request."""
        del request, duration_ns, now_ns
        self.tokens[target] += tokens

    def drop(self, target: int, request: int, tokens: int, now_ns: int) -> None:
        """Count it no more."""
        del request, now_ns
        self.tokens[target] -= tokens

    def active(self, now_ns: int) -> list[int]:
        """Give the tokens of all targets."""
        del now_ns
        return self.tokens


class _Prefills:
    """Prefills of one target in order: request -> (tokens, predicted ns). `since_ns`: clock of the first."""

    __slots__ = ("items", "since_ns", "unpredicted")

    def __init__(self) -> None:
        self.items: dict[int, tuple[int, int]] = {}
        self.since_ns = 0
        self.unpredicted = 0


class PredictedPrefillLoads(PrefillLoads):
    """The same, less what the prefills in progress should have done by now.

    If every prefill of a target has a prediction, what the anchor is overdue spills into the next ones.
    """

    __slots__ = ("_prefills",)

    def __init__(self) -> None:
        super().__init__()
        self._prefills: list[_Prefills] = []

    def add_target(self) -> None:
        """Make room for one more target."""
        super().add_target()
        self._prefills.append(_Prefills())

    def add(self, target: int, request: int, tokens: int, duration_ns: int, now_ns: int) -> None:
        """Count the prefill of a request; a duration of 0 is none."""
        self.tokens[target] += tokens
        prefills = self._prefills[target]
        if not prefills.items:
            prefills.since_ns = now_ns
        prefills.items[request] = tokens, duration_ns
        prefills.unpredicted += not duration_ns

    def drop(self, target: int, request: int, tokens: int, now_ns: int) -> None:
        """Count it no more; the next one becomes the anchor if it was that."""
        self.tokens[target] -= tokens
        prefills = self._prefills[target]
        if next(iter(prefills.items)) == request:
            prefills.since_ns = now_ns
        _, duration_ns = prefills.items.pop(request)
        prefills.unpredicted -= not duration_ns

    def active(self, now_ns: int) -> list[int]:
        """Give the tokens of all targets."""
        return [
            _decayed(total, prefills, now_ns) if total else 0
            for total, prefills in zip(self.tokens, self._prefills, strict=True)
        ]


def _decayed(total: int, prefills: _Prefills, now_ns: int) -> int:
    tokens, duration_ns = next(iter(prefills.items.values()))
    if not duration_ns:
        return total
    share = (now_ns - prefills.since_ns) / duration_ns
    if not prefills.unpredicted:
        return max(0, total - floor(tokens * share))
    return total - tokens + ceil(tokens * min(1.0, max(0.0, 1.0 - share)))
