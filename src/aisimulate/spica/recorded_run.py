"""A run as its ledger tells it: the configuration, the attempts, and the ranking they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.spica.deploy import deployment_of_goal
from aisimulate.spica.ledger import RUNNING
from aisimulate.spica.reported import answer
from aisimulate.spica.run_facts import recorded_config
from aisimulate.spica.runtime_payload import replay_spec

if TYPE_CHECKING:
    from pathlib import Path

    from aisimulate.spica.config import Candidate, SmartSearchConfig
    from aisimulate.spica.ledger import Attempt, Ledger


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What a ledger holds. `candidates` are ranked, or the Pareto front; of an unfinished run, so far.

    As in the answer of the search itself, those replayed in part are no candidates where others are.
    """

    path: Path
    facts: dict[str, Any]
    config: SmartSearchConfig
    attempts: list[Attempt]
    candidates: list[Candidate]

    @property
    def measured(self) -> list[tuple[Attempt, Candidate]]:
        """The feasible candidates with their attempts, in the order of the search; repeated ones once."""
        return [(a, a.outcome.candidate) for a in self.attempts if a.outcome.candidate and not a.cached]

    @property
    def name(self) -> str:
        """How the user calls it."""
        return self.path.stem

    @property
    def status(self) -> str:
        """`done`, `interrupted`, `out_of_time`, or `running` (which a killed search stays)."""
        return str(self.facts.get("status", RUNNING))


def read_run(ledger: Ledger) -> RecordedRun:
    """Read a run. Raises InputError when its search never began."""
    facts = ledger.facts
    if "config" not in facts:
        raise InputError(f"{ledger.path}: its search never began")
    config = recorded_config(ledger, facts["config"])
    if facts.get("asked"):
        recorded_config(ledger, facts["asked"])
    attempts = list(ledger.attempts())
    for attempt in attempts:
        if attempt.outcome.candidate is not None:
            _check_complete(ledger.path, attempt.number, attempt.outcome.candidate, config)
    found = [a.outcome.candidate for a in attempts if a.outcome.candidate is not None and not a.cached]
    return RecordedRun(ledger.path, facts, config, attempts, answer(found, config.goal))


def _check_complete(path: Path, number: int, candidate: Candidate, config: SmartSearchConfig) -> None:
    """Raise InputError for a candidate without what readers of a record need of it."""
    what = f"{path}: is damaged: attempt {number}: candidate"
    if candidate.config.get("kv_load_ratio") is not None and candidate.config.get("concurrency") is None:
        raise InputError(f"{what}.config: 'concurrency' is missing")
    found = candidate.objectives or {}
    for target in config.goal.targets if config.goal.is_pareto else ():
        if target.value not in found:
            raise InputError(f"{what}.objectives: {target.value!r} is missing")
    try:
        replay_spec(deployment_of_goal(candidate.config, config.goal), config.goal.sla)
    except InputError:
        return  # another evaluator may measure what ours cannot replay
    except KeyError as error:
        raise InputError(f"{what}.config: {error} is missing") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{what}.config: {error}") from error
