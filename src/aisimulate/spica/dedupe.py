"""Remembers what was measured, so that equal deployments share one replay (spec 05 D4, D9)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aisimulate.spica.outcome import Outcome
    from aisimulate.spica.samplers.base import Suggestion


class OutcomeCache:
    """Outcomes by key: all of them, except that a retryable one is forgotten the first time.

    A retryable outcome (time cap, dead worker) may be bad luck, so its second suggestion is evaluated
    again; the outcome of that second try stays.
    """

    def __init__(self) -> None:
        self._outcomes: dict[str, Outcome] = {}
        self._retried: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._outcomes

    def get(self, key: str) -> Outcome | None:
        """Return the outcome stored for `key`, or None."""
        return self._outcomes.get(key)

    def store(self, key: str, outcome: Outcome) -> None:
        """Remember `outcome`, unless it is the first retryable one of its key."""
        if outcome.retryable and key not in self._retried:
            self._retried.add(key)
            return
        self._outcomes[key] = outcome


def digest(value: Any) -> str:  # noqa: ANN401 - any JSON-like value
    """Return the SHA-256 of a value's canonical JSON (sorted keys, no spaces, no non-finite numbers)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def point_key(suggestion: Suggestion) -> str:
    """Key of a suggestion that has no deployment plan: what was selected, not what it would run."""
    config = dataclasses.asdict(suggestion.parallel_config)
    return "point:" + digest([suggestion.selection, config])
