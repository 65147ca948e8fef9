"""Confidence in the data behind a result, in words and as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.spica.confidence import config_confidence

if TYPE_CHECKING:
    from aisimulate.spica.config import Candidate
    from aisimulate.timing.aic.health import Confidence

UNKNOWN = "-"


def confidence_text(confidence: Confidence) -> str:
    """Give grade and reasons on one line."""
    reasons = "; ".join(confidence.reasons)
    return f"{confidence.grade} ({reasons})" if reasons else confidence.grade


def confidence_document(confidence: Confidence | None) -> dict[str, Any] | None:
    """Give the same as plain values."""
    if confidence is None:
        return None
    return {"grade": confidence.grade, "reasons": list(confidence.reasons)}


def candidate_grade(candidate: Candidate) -> str:
    """Give the grade of a candidate's data, or a dash where nothing is known of them."""
    confidence = config_confidence(candidate.config)
    return UNKNOWN if confidence is None else confidence.grade


def candidate_confidence_text(candidate: Candidate) -> str:
    """Give grade and reasons of a candidate's data; empty where nothing is known of them."""
    confidence = config_confidence(candidate.config)
    return "" if confidence is None else confidence_text(confidence)
