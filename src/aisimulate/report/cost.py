"""What tokens cost at a price per GPU and hour, in the currency of that price."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.spica.config import Candidate

_MILLION = 1_000_000


def cost_per_million_tokens(candidate: Candidate, gpu_hour_price: float) -> float | None:
    """Cost of a million output tokens, all GPU time of the replay paid; None where none were made."""
    gpu_hours, tokens = (candidate.metrics.get(name) for name in ("gpu_hours", "total_output_tokens"))
    if gpu_hours is None or not tokens:
        return None
    return gpu_hours * gpu_hour_price / tokens * _MILLION
