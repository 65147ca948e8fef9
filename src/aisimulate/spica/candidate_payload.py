"""The payload that a recorded candidate was replayed from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from aisimulate.spica.deploy import deployment_of_goal
from aisimulate.spica.evaluator import ReplayEvaluator
from aisimulate.spica.trace_facts import read_trace_facts

if TYPE_CHECKING:
    from aisimulate.spica.config import Candidate, SmartSearchConfig
    from aisimulate.spica.recorded_run import RecordedRun


def replayable_config(run: RecordedRun) -> SmartSearchConfig:
    """Give the configuration of a recorded run with its trace as it was resolved, from any folder."""
    asked = run.facts.get("asked", {}).get("workload", {})
    workload = run.config.workload.model_copy(update={"trace_path": asked.get("trace_path")})
    return run.config.model_copy(update={"workload": workload})


def candidate_payload(asked: SmartSearchConfig, candidate: Candidate) -> dict[str, Any]:
    """Build the payload of a candidate of a search; records come with the decisions of a planner alone.

    Raises AISimulateError, ValueError, KeyError or TypeError for a record of another version.
    """
    goal, workload, config = asked.goal, asked.workload, candidate.config
    plan = deployment_of_goal(config, goal)
    if plan.max_model_len is None:
        plan = dataclasses.replace(plan, max_model_len=read_trace_facts(asked).model_context_tokens)
    load = config.get("concurrency") if workload.kv_load_ratio is not None else None
    payload = ReplayEvaluator(workload, goal, calibration=asked.calibration).payload(
        plan, concurrency_override=load
    )
    # With the records come the decisions of a planner.
    payload["spec"]["record_per_request"] = plan.planner_config is not None
    return payload
