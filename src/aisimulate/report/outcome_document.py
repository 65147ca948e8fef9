"""What every record of an attempt says of its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.report.confidence import confidence_document
from aisimulate.spica.confidence import config_confidence

if TYPE_CHECKING:
    from aisimulate.spica.outcome import Outcome


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """Give an outcome as plain values: what was measured, or why nothing was."""
    candidate = outcome.candidate
    return {
        "status": outcome.status.value,
        "config": outcome.config,
        "score": None if candidate is None else candidate.score,
        "metrics": None if candidate is None else candidate.metrics,
        "objectives": None if candidate is None else candidate.objectives,
        "confidence": None if candidate is None else confidence_document(config_confidence(candidate.config)),
        "reason_category": None if outcome.category is None else outcome.category.value,
        "reason": outcome.reason or None,
    }
