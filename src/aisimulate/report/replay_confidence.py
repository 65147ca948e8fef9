"""Confidence in the data behind a replay, in its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.config.payload import parse_payload
from aisimulate.replay.confidence import execution_confidence
from aisimulate.report.confidence import confidence_document

if TYPE_CHECKING:
    from collections.abc import Mapping


def with_confidence(report: dict[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
    """Add `confidence` to the report of a payload, where measured data time it."""
    confidence = execution_confidence(parse_payload(payload))
    return report if confidence is None else report | {"confidence": confidence_document(confidence)}
