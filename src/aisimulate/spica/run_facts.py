"""What a ledger says of its run, and whether a search may go on with it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from aisimulate.config.messages import one_line
from aisimulate.core.errors import InputError
from aisimulate.core.shown import show_path
from aisimulate.spica.config import RECORDED, SmartSearchConfig
from aisimulate.spica.dedupe import digest
from aisimulate.spica.trace_facts import trace_digest
from aisimulate.spica.versions import program_versions
from aisimulate.timing.aic.names import model_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.spica.batch import OnEnd
    from aisimulate.spica.evaluate import EvaluationContext, Prepared
    from aisimulate.spica.ledger import Ledger
    from aisimulate.spica.outcome import Outcome
    from aisimulate.spica.plan import SearchPlan

_CONFIG = "config.json"

# Facts that must be the same when a run is continued, and what to call them.
_FIXED = {
    "config_sha256": "another configuration",
    "trace_sha256": "another trace",
    "model_sha256": "another model",
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
        "model_sha256": _model_digest(plan.config),
        "versions": program_versions(),
        "backend_versions": dict(context.backend_versions),
        "seed": plan.config.sweep.random_seed,
    }
    earlier = ledger.facts
    for name, what in _FIXED.items():
        if name in earlier and earlier[name] != facts[name]:
            raise InputError(f"{ledger.path}: was made with {what}; start a new run")
    # As it was first asked: who goes on with a run was given the resolved path.
    config["workload"]["trace_path"] = earlier.get("config", {}).get("workload", {}).get("trace_path", trace)
    given = asked.model_dump(mode="json", exclude_unset=True)
    if trace is not None:  # a run may be continued from another folder
        given["workload"]["trace_path"] = str(Path(trace).resolve())
    place = model_folder(plan.config.search_space.model_name)
    if place is not None:
        facts["model_folder"] = place
    ledger.describe(**facts, config=config, asked=given, notes=plan.notes, status="running")


def changed_inputs(asked: SmartSearchConfig, facts: Mapping[str, Any]) -> list[str]:
    """Name the files that are not what they were when a run was recorded: its trace, and its model's.

    `asked` is the configuration with the trace as it was resolved. One that is gone is not told here:
    whoever reads it will.
    """
    trace, wanted = asked.workload.trace_path, facts.get("trace_sha256")
    found = []
    is_there = trace is not None and Path(trace).exists()
    if trace is not None and wanted is not None and is_there and trace_digest(Path(trace)) != wanted:
        found.append(f"{trace}: the search was made with another trace")
    wanted, now = facts.get("model_sha256"), _model_digest(asked)
    if wanted is not None and now is not None and now != wanted:
        path = Path(asked.search_space.model_name) / _CONFIG
        found.append(f"{path}: the search was made with another model")
    return found


def _model_digest(config: SmartSearchConfig) -> str | None:
    """Give the SHA-256 of the file of a model in a folder; None for one that is bundled or not there."""
    path = Path(config.search_space.model_name) / _CONFIG
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    except OSError:
        return None


def asked_config(ledger: Ledger) -> SmartSearchConfig:
    """Return what the user asked for. Raises InputError for a run whose search never began."""
    given = ledger.facts.get("asked")
    if given is None:
        raise InputError(f"{ledger.path}: its search never began; start it anew")
    config = recorded_config(ledger, given)
    place, name = ledger.facts.get("model_folder"), config.search_space.model_name
    if place is not None and model_folder(name) != place:
        raise InputError(
            f"{ledger.path}: search_space.model_name: {show_path(name)} was {show_path(place)} when the "
            "search began; go on from the folder where it is that"
        )
    return config


def recorded_model_folder(facts: Mapping[str, Any], name: str) -> str | None:
    """Give the absolute path of a run's model, None where it is no folder.

    Records of earlier versions do not say it; their paths are taken from here.
    """
    recorded = facts.get("model_folder")
    if recorded is not None:
        return str(recorded)
    return model_folder(name) if name.startswith((".", "~", "/")) else None


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
