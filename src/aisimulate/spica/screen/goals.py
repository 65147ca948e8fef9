"""Which goals a screen can speak of, for which traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.spica.config_goal import OptimizationTarget
from aisimulate.spica.planner import enables_scaling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from aisimulate.spica.config import SmartSearchConfig, Workload
    from aisimulate.spica.screen.columns import EstimateColumns

    Floats = NDArray[np.float64]

# What an estimate says of each goal.
VALUES: dict[OptimizationTarget, Callable[[EstimateColumns], Floats]] = {
    OptimizationTarget.THROUGHPUT: lambda estimate: estimate.output_tok_s,
    OptimizationTarget.THROUGHPUT_PER_GPU: lambda estimate: estimate.output_tok_s / estimate.gpus,
    OptimizationTarget.THROUGHPUT_PER_USER: lambda estimate: estimate.tok_s_user,
    OptimizationTarget.E2E_LATENCY: lambda estimate: estimate.e2e_ms,
    OptimizationTarget.TTFT: lambda estimate: estimate.ttft_ms,
    OptimizationTarget.GOODPUT: lambda estimate: estimate.goodput_tok_s,
    OptimizationTarget.GOODPUT_PER_GPU: lambda estimate: estimate.goodput_tok_s / estimate.gpus,
}


def objective_columns(estimate: EstimateColumns, targets: Sequence[OptimizationTarget]) -> Floats:
    """Return the raw values of goals, one column each."""
    import numpy as np  # noqa: PLC0415 - whether there is a screen is asked without it

    return np.column_stack([VALUES[target](estimate) for target in targets])


def no_screen_reason(config: SmartSearchConfig) -> str | None:
    """Say why candidates of a search cannot be screened; None when they can."""
    if any(enables_scaling(policy) for policy in config.search_space.planner_scaling_policy):
        return "fleets that scale cannot be screened"
    return _traffic_reason(config) or _engine_reason(config)


def _traffic_reason(config: SmartSearchConfig) -> str | None:
    workload = config.workload
    if workload.turns_per_session > 1 or workload.shared_prefix_ratio > 0:
        return "sessions and shared prefixes cannot be screened"
    unknown = [target.value for target in config.goal.targets if target not in VALUES]
    if unknown:
        return f"{' and '.join(unknown)} cannot be screened"
    if is_open(workload):
        return None
    if workload.is_trace_based:
        return "traces with a cap on requests in flight cannot be screened"
    counting = [target.value for target in config.goal.targets if target.needs_sla]
    if counting:
        return f"{' and '.join(counting)} of a fixed number of requests in flight cannot be screened"
    return None


def is_open(workload: Workload) -> bool:
    """Whether requests arrive by themselves."""
    if workload.is_trace_based:
        return workload.replay_concurrency is None
    return workload.request_rate is not None


def _engine_reason(config: SmartSearchConfig) -> str | None:
    space = config.search_space
    if space.timing_mode != "additive" or space.aic_nextn:
        return "only additive timing without drafts can be screened"
    if config.calibration is not None:
        return "calibrated pass times cannot be screened"
    if space.scheduling_look_ahead or config.workload.frontend is not None:
        return "only engines without look-ahead and front end can be screened"
    return None
