"""What a candidate can be exported to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.report.export.containers import export_compose, export_kubernetes
from aisimulate.report.export.deployment import Export, deployment_of
from aisimulate.report.export.dynamo import export_dynamo
from aisimulate.report.export.llmd import export_llmd
from aisimulate.report.export.scripts import export_scripts
from aisimulate.spica.deploy import deployment_of_goal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from aisimulate.spica.config import OptimizationGoal

TARGETS = {
    "vllm": export_scripts,
    "sglang": export_scripts,
    "trtllm": export_scripts,
    "dynamo": export_dynamo,
    "llm-d": export_llmd,
    "compose": export_compose,
    "kubernetes": export_kubernetes,
}


def export_candidate(
    config: Mapping[str, Any], goal: OptimizationGoal, target: str, model_folder: str | None = None
) -> Export:
    """Write a candidate's files for one of `TARGETS`.

    `model_folder` is the absolute path of a model that lies in a folder. Commands name it; containers
    name a folder of their own, into which it has to be mounted.

    Raises:
        InputError: the target cannot start it; what it can start but not set is in the remarks.
    """
    plan = deployment_of_goal(config, goal)
    write = TARGETS[target]
    deployment = deployment_of(
        config, plan.planner_config, model_folder, in_containers=write is not export_scripts
    )
    return write(deployment, target)
