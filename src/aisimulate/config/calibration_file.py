"""Calibration files: read, checked, and written always alike."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import yaml

from aisimulate.config.calibration import Calibration
from aisimulate.config.document_file import read_document
from aisimulate.config.messages import parse_model

if TYPE_CHECKING:
    from pathlib import Path


def read_calibration(path: Path) -> Calibration:
    """Read a calibration, YAML when the file is named so, else JSON.

    Raises `InputError`: one line with the file, the field, its value and the rule.
    """
    name = f"calibration {str(path)!r}"
    return parse_model(Calibration, read_document(path, name), name)


def calibration_text(calibration: Calibration) -> str:
    """Write a calibration as YAML; what is null or empty is left out."""
    document = calibration.model_dump(mode="json", exclude_none=True)
    for name in ("points", "training_error", "held_out_error", "notes"):
        if not document[name]:
            del document[name]
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
    return text


def factors_at(calibration: Calibration, load: float) -> tuple[float, float]:
    """Give step scale and TTFT ratio at a concurrency (or rate), along the logarithms of the points'.

    Beyond the outermost points theirs holds. Without points both are 1.
    """
    points = calibration.points
    if not points:
        return 1.0, 1.0
    above = next((place for place, point in enumerate(points) if point.load >= load), len(points) - 1)
    high = points[above]
    if above == 0 or high.load <= load:
        return high.step_scale, high.ttft_ratio
    low = points[above - 1]
    share = math.log(load / low.load) / math.log(high.load / low.load)
    return (
        _between(low.step_scale, high.step_scale, share),
        _between(low.ttft_ratio, high.ttft_ratio, share),
    )


def _between(low: float, high: float, share: float) -> float:
    return math.exp((1.0 - share) * math.log(low) + share * math.log(high))
