"""What a ledger says of its run, and whether a search may go on with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from aisimulate.config.messages import one_line
from aisimulate.core.errors import InputError
from aisimulate.spica.config import RECORDED, SmartSearchConfig
from aisimulate.spica.dedupe import digest
from aisimulate.spica.versions import program_versions

if TYPE_CHECKING:
    from aisimulate.spica.batch import OnEnd
    from aisimulate.spica.evaluate import EvaluationContext, Prepared
    from aisimulate.spica.ledger import Ledger
    from aisimulate.spica.outcome import Outcome
    from aisimulate.spica.plan import SearchPlan

# Facts that must be the same when a run is continued, and what to call them.
_FIXED = {
    "config_sha256": "another configuration",
    "trace_sha256": "another trace",
    "versions": "other versions of the programs",
    "backend_versions": "other versions of the performance data",
}


def begin_run(ledger: Ledger, asked: SmartSearchConfig, plan: SearchPlan, context: EvaluationContext) -> None:
    """Describe the run in a new ledger, or hold an old one against it. `asked` is what the user gave.

    Raises:
        InputError: the ledger belongs to another search.
    """
    config = plan.config.model_dump(mode="json")
    trace = config["workload"].pop("trace_path")
    facts: dict[str, Any] = {
        "config_sha256": digest(config),
        "trace_sha256": plan.trace_digest,
        "versions": program_versions(),
        "backend_versions": dict(context.backend_versions),
        "seed": plan.config.sweep.random_seed,
    }
    earlier = ledger.facts
    for name, what in _FIXED.items():
        if name in earlier and earlier[name] != facts[name]:
            raise InputError(f"{ledger.path}: was made with {what}; start a new run")
    config["workload"]["trace_path"] = trace
    given = asked.model_dump(mode="json", exclude_unset=True)
    if trace is not None:  # a run may be continued from another folder
        given["workload"]["trace_path"] = str(Path(trace).resolve())
    ledger.describe(**facts, config=config, asked=given, notes=plan.notes, status="running")


def asked_config(ledger: Ledger) -> SmartSearchConfig:
    """Return what the user asked for. Raises InputError for a run whose search never began."""
    given = ledger.facts.get("asked")
    if given is None:
        raise InputError(f"{ledger.path}: its search never began; start it anew")
    return recorded_config(ledger, given)


def recorded_config(ledger: Ledger, given: object) -> SmartSearchConfig:
    """Read a configuration that a ledger holds. Raises InputError for one that this program cannot read."""
    try:
        return SmartSearchConfig.model_validate(given, context=RECORDED)
    except ValidationError as error:
        problem = one_line(error, "", SmartSearchConfig)
        raise InputError(f"{ledger.path}: its configuration cannot be read: {problem}") from error


def recorder(ledger: Ledger) -> OnEnd:
    """Return what writes each replay down as it ends."""

    def record(task: Prepared, outcome: Outcome, wall_s: float) -> None:
        ledger.add_replay(task.key, outcome, wall_s)

    return record
