"""Spica: find the deployment that serves your traffic best, by replaying candidates.

Importing this package imports nothing else: every name is looked up on first use (spec 05 section 0).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aisimulate.spica.config import (
        Candidate,
        OptimizationGoal,
        OptimizationTarget,
        SearchSpace,
        SLATarget,
        SmartSearchConfig,
        SweepConfig,
        Workload,
    )
    from aisimulate.spica.deploy import DeploymentPlan, build_deployment
    from aisimulate.spica.evaluator import ReplayEvaluator
    from aisimulate.spica.focused_search import FocusedResult, focused_search
    from aisimulate.spica.kv_estimate import NoPerfDatabase, estimate_kv_tokens, feasible_shape_tokens
    from aisimulate.spica.kv_load import InfeasibleKVCapacity, KVLoadResolution, resolve_kv_load
    from aisimulate.spica.load_predictor_sweep import (
        LoadPredictorResult,
        predictor_fields,
        sweep_load_predictor,
        window_loss,
    )
    from aisimulate.spica.model_hw import (
        ModelHardware,
        NoViableParallelConfig,
        parallel_configs_for,
        resolve_model_hardware,
    )
    from aisimulate.spica.parallel_enum import (
        DisaggParallelConfig,
        ParallelShape,
        ReplicaParallelConfig,
        enumerate_disagg_configs,
        enumerate_parallel_configs,
        enumerate_worker_shapes,
    )
    from aisimulate.spica.parallel_projection import (
        ParallelConfigProjector,
        ParallelParameter,
        ParallelProjection,
    )
    from aisimulate.spica.planner import (
        FPM_SAMPLING,
        LOAD_SENSITIVITY,
        SCALING_POLICIES,
        ScalingPolicy,
        throughput_intervals,
    )
    from aisimulate.spica.sample import unroll_sample
    from aisimulate.spica.sampler import BranchSampler, Suggestion, make_branch_sampler
    from aisimulate.spica.score import is_feasible, make_candidate, objective_value, rank, score_report
    from aisimulate.spica.search import run_smart_search
    from aisimulate.spica.search_space import BranchSpace, enumerate_branches

__all__ = [
    "FPM_SAMPLING",
    "LOAD_SENSITIVITY",
    "SCALING_POLICIES",
    "BranchSampler",
    "BranchSpace",
    "Candidate",
    "DeploymentPlan",
    "DisaggParallelConfig",
    "FocusedResult",
    "InfeasibleKVCapacity",
    "KVLoadResolution",
    "LoadPredictorResult",
    "ModelHardware",
    "NoPerfDatabase",
    "NoViableParallelConfig",
    "OptimizationGoal",
    "OptimizationTarget",
    "ParallelConfigProjector",
    "ParallelParameter",
    "ParallelProjection",
    "ParallelShape",
    "ReplayEvaluator",
    "ReplicaParallelConfig",
    "SLATarget",
    "ScalingPolicy",
    "SearchSpace",
    "SmartSearchConfig",
    "Suggestion",
    "SweepConfig",
    "Workload",
    "build_deployment",
    "enumerate_branches",
    "enumerate_disagg_configs",
    "enumerate_parallel_configs",
    "enumerate_worker_shapes",
    "estimate_kv_tokens",
    "feasible_shape_tokens",
    "focused_search",
    "is_feasible",
    "make_branch_sampler",
    "make_candidate",
    "objective_value",
    "parallel_configs_for",
    "predictor_fields",
    "rank",
    "resolve_kv_load",
    "resolve_model_hardware",
    "run_smart_search",
    "score_report",
    "sweep_load_predictor",
    "throughput_intervals",
    "unroll_sample",
    "window_loss",
]

_MODULE_NAMES = {
    "config": (
        "Candidate OptimizationGoal OptimizationTarget SearchSpace SLATarget SmartSearchConfig SweepConfig "
        "Workload"
    ),
    "deploy": "DeploymentPlan build_deployment",
    "evaluator": "ReplayEvaluator",
    "focused_search": "FocusedResult focused_search",
    "kv_estimate": "NoPerfDatabase estimate_kv_tokens feasible_shape_tokens",
    "kv_load": "InfeasibleKVCapacity KVLoadResolution resolve_kv_load",
    "load_predictor_sweep": "LoadPredictorResult predictor_fields sweep_load_predictor window_loss",
    "model_hw": "ModelHardware NoViableParallelConfig parallel_configs_for resolve_model_hardware",
    "parallel_enum": (
        "DisaggParallelConfig ParallelShape ReplicaParallelConfig enumerate_disagg_configs "
        "enumerate_parallel_configs enumerate_worker_shapes"
    ),
    "parallel_projection": "ParallelConfigProjector ParallelParameter ParallelProjection",
    "planner": "FPM_SAMPLING LOAD_SENSITIVITY SCALING_POLICIES ScalingPolicy throughput_intervals",
    "sample": "unroll_sample",
    "sampler": "BranchSampler Suggestion make_branch_sampler",
    "score": "is_feasible make_candidate objective_value rank score_report",
    "search": "run_smart_search",
    "search_space": "BranchSpace enumerate_branches",
}
_HOMES = {name: module for module, names in _MODULE_NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the named module holds
    """Import the module that defines `name` on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted(__all__)
