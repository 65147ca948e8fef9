"""The attempts that gave no result, by reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aisimulate.report.shapes import workers_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from aisimulate.report.page.scrub import Scrubber
    from aisimulate.spica.recorded_run import RecordedRun

_MOST_EXAMPLES = 5


@dataclass(slots=True)
class Rejected:
    """One reason: how it ended, its code, its words in the first case, and who it met."""

    status: str
    category: str
    reason: str
    count: int = 0
    examples: list[str] = field(default_factory=list)


def rejected_groups(run: RecordedRun, scrubber: Scrubber) -> list[Rejected]:
    """Group what has no result by its status and code, the most frequent first."""
    groups: dict[tuple[str, str], Rejected] = {}
    for attempt in run.attempts:
        outcome = attempt.outcome
        if outcome.candidate is not None or attempt.cached:
            continue
        category = "-" if outcome.category is None else outcome.category.value
        reason = scrubber.text(outcome.reason)
        group = groups.setdefault(
            (outcome.status.value, category), Rejected(outcome.status.value, category, reason)
        )
        group.count += 1
        if len(group.examples) < _MOST_EXAMPLES:
            group.examples.append(f"{attempt.number}: {scrubber.text(_layout(outcome.config))}")
    return sorted(groups.values(), key=lambda group: (-group.count, group.status, group.category))


def _layout(config: Mapping[str, Any]) -> str:
    """Name a deployment as far as it was built."""
    try:
        return workers_text(config)
    except (KeyError, TypeError, ValueError):
        return "not built"
