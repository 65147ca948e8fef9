"""Which candidates a search reports: those whose figures come from a whole replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.replay.part_keys import EARLY_STOP_KEY, FIRST_SESSIONS_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.config import Candidate


def was_short(candidate: Candidate) -> bool:
    """Whether the figures of a candidate come from a part of the replay."""
    return EARLY_STOP_KEY in candidate.metrics or FIRST_SESSIONS_KEY in candidate.metrics


def reported(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Leave out those that were replayed in part, unless a search that ended early has no others."""
    full = [candidate for candidate in candidates if not was_short(candidate)]
    return full or list(candidates)
