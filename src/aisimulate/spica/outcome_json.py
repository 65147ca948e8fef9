"""Outcomes as JSON texts, without loss: what was written is what is read."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from aisimulate.spica.config import Candidate
from aisimulate.spica.outcome import Outcome, Reason, Status


def outcome_text(outcome: Outcome) -> str:
    """Write an outcome. Raises TypeError or ValueError for a config that no JSON text can hold."""
    candidate = outcome.candidate
    fields: dict[str, Any] = {"status": outcome.status.value, "config": outcome.config}
    if candidate is None:
        fields |= {"category": outcome.category and outcome.category.value, "reason": outcome.reason}
        if outcome.missed:
            fields["missed"] = outcome.missed
    else:
        fields["candidate"] = {
            "config": candidate.config,
            "used_gpus": candidate.used_gpus,
            "score": candidate.score,
            "metrics": candidate.metrics,
            "objectives": candidate.objectives,
        }
    return json.dumps(fields, separators=(",", ":"))


def read_outcome(text: str) -> Outcome:
    """Read what `outcome_text` wrote.

    Raises ValueError, TypeError, KeyError or AttributeError for other texts, such as those with numbers that
    are not finite: no search records such a result.
    """
    fields = json.loads(text, parse_constant=_refuse)
    category = fields.get("category")
    candidate = fields.get("candidate")
    status = Status(fields["status"])
    if (candidate is None) is (status is Status.FEASIBLE):
        raise ValueError(
            f"an outcome is {status.value}, {'without' if candidate is None else 'with'} a candidate"
        )
    return Outcome(
        status,
        fields["config"],
        candidate=None if candidate is None else _finite(Candidate(**candidate)),
        category=None if category is None else Reason(category),
        reason=fields.get("reason", ""),
        missed=fields.get("missed", {}),
    )


def _finite(candidate: Candidate) -> Candidate:
    """Refuse a candidate with a number so large that reading it gave infinity."""
    for name, value in {
        "score": candidate.score,
        **candidate.metrics,
        **(candidate.objectives or {}),
    }.items():
        if not math.isfinite(value):
            raise ValueError(f"{name} is {value}")
    return candidate


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no finite number")
