"""Outcomes as JSON texts, without loss: what was written is what is read."""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic import ValidationError

from aisimulate.config.messages import one_line
from aisimulate.spica.config import Candidate
from aisimulate.spica.outcome import Outcome, Reason, Status
from aisimulate.spica.record_values import check_mapping, check_numbers, check_sample, read_json


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
    fields = check_mapping("outcome", read_json(text))
    category = fields.get("category")
    candidate = fields.get("candidate")
    status = Status(fields["status"])
    if (candidate is None) is (status is Status.FEASIBLE):
        raise ValueError(
            f"an outcome is {status.value}, {'without' if candidate is None else 'with'} a candidate"
        )
    reason = fields.get("reason", "")
    if not isinstance(reason, str):
        raise ValueError("reason: expected a text")
    return Outcome(
        status,
        check_sample("config", fields["config"]),
        candidate=None if candidate is None else _candidate(candidate),
        category=None if category is None else Reason(category),
        reason=reason,
        missed=check_numbers("missed", fields.get("missed", {})),
    )


def _candidate(fields: object) -> Candidate:
    given = check_mapping("candidate", fields)
    check_sample("candidate.config", given.get("config"))
    for name in ("metrics", "objectives"):
        if given.get(name) is not None:
            check_numbers(f"candidate.{name}", given[name])
    try:
        return _finite(Candidate(**given))
    except ValidationError as error:
        raise ValueError(one_line(error, "candidate", Candidate)) from None


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
