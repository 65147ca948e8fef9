"""A quick answer from Python: the staged heuristic of `samplers/focused.py`, with hard SLA bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aisimulate.spica.score import rank
from aisimulate.spica.search import run_search

if TYPE_CHECKING:
    from aisimulate.spica.config import Candidate, SmartSearchConfig
    from aisimulate.spica.evaluator import Evaluator
    from aisimulate.spica.outcome import Outcome


@dataclass(frozen=True, slots=True)
class FocusedResult:
    """What a focused search found.

    `best` is the best candidate that meets the SLA, None when none does; then `nearest` holds those that came
    closest, nearest first, with what they missed and by how much. `table` is everything that was tried, in
    order, and `ranking` the candidates that meet the SLA, best first.
    """

    best: Candidate | None
    ranking: list[Candidate]
    table: list[Outcome]
    nearest: list[Outcome] = field(default_factory=list)


def focused_search(config: SmartSearchConfig, *, evaluator: Evaluator | None = None) -> FocusedResult:
    """Search `config` by stages: shapes that fill the budget, numbers of workers, router and engine settings.

    An SLA bounds the means of every candidate, unless the goal counts goodput. Nothing is printed.

    Raises:
        ValueError: as `run_smart_search`, and for a Pareto goal or a ranged load.
        KeyboardInterrupt: after all workers were stopped.
    """
    goal, sweep = config.goal, config.sweep
    strict = goal.strict_sla or (goal.sla is not None and not goal.target.needs_sla)
    asked = config.model_copy(
        update={
            "goal": goal.model_copy(update={"strict_sla": strict}),
            "sweep": sweep.model_copy(update={"policy": "focused", "sampler": "auto"}),
        }
    )
    result = run_search(asked, evaluator=evaluator)
    if result.interrupted:
        raise KeyboardInterrupt
    ranking = rank(result.candidates)
    return FocusedResult(ranking[0] if ranking else None, ranking, result.outcomes, result.near_misses)
