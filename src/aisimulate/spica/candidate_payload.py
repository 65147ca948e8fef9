"""The payload that a recorded candidate was replayed from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from aisimulate.spica.deploy import deployment_of_goal
from aisimulate.spica.evaluator import ReplayEvaluator
from aisimulate.spica.run_facts import recorded_model_folder
from aisimulate.spica.trace_facts import read_trace_facts

if TYPE_CHECKING:
    from aisimulate.spica.config import Candidate, SmartSearchConfig
    from aisimulate.spica.deploy import DeploymentPlan
    from aisimulate.spica.recorded_run import RecordedRun


def replayable_config(run: RecordedRun) -> SmartSearchConfig:
    """Give the configuration of a run with its trace and model as they were resolved, for any folder."""
    asked = run.facts.get("asked", {}).get("workload", {})
    workload = run.config.workload.model_copy(update={"trace_path": asked.get("trace_path")})
    space = run.config.search_space
    folder = recorded_model_folder(run.facts, space.model_name)
    if folder is not None:
        space = space.model_copy(update={"model_name": folder})
    return run.config.model_copy(update={"workload": workload, "search_space": space})


def candidate_evaluator(asked: SmartSearchConfig) -> ReplayEvaluator:
    """Make the evaluator that a search with this configuration replays with."""
    return ReplayEvaluator(asked.workload, asked.goal, calibration=asked.calibration)


def plan_and_load(asked: SmartSearchConfig, candidate: Candidate) -> tuple[DeploymentPlan, int | None]:
    """Make the plan of a candidate, and the cap that its KV load came to.

    Raises AISimulateError, ValueError, KeyError or TypeError for a record of another version.
    """
    config = {**candidate.config, "model_name": asked.search_space.model_name}
    plan = deployment_of_goal(config, asked.goal)
    if plan.max_model_len is None:
        plan = dataclasses.replace(plan, max_model_len=read_trace_facts(asked).model_context_tokens)
    return plan, config.get("concurrency") if asked.workload.kv_load_ratio is not None else None


def candidate_payload(asked: SmartSearchConfig, candidate: Candidate) -> dict[str, Any]:
    """Build what a search replayed for a candidate; records come with the decisions of a planner alone.

    Raises like `plan_and_load`.
    """
    plan, load = plan_and_load(asked, candidate)
    payload = candidate_evaluator(asked).payload(plan, concurrency_override=load)
    payload["spec"]["record_per_request"] = plan.planner_config is not None
    return payload
