"""The evaluator of a real search: replays a deployment plan in this package's own simulator."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol

from aisimulate.core.errors import ReplayError
from aisimulate.spica.numeric import numeric_entries
from aisimulate.spica.runtime_payload import replay_frontend, replay_spec, replay_traffic
from aisimulate.spica.score import GOODPUT_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.spica.config import OptimizationGoal, Workload
    from aisimulate.spica.deploy import DeploymentPlan

# Metrics are flat, so the count of each reason in the report's `rejection_reasons` has a key of its own.
REJECTION_PREFIX = "rejected_requests."

# Real time of the simulator itself; it differs from run to run and says nothing about a deployment.
_WALL_CLOCK_KEYS = frozenset({"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"})

SHORT_SESSIONS = 3_000
"""Sessions of a trace that tell deployments apart (spec 08 section 4.2)."""


class Evaluator(Protocol):
    """Measures a deployment. Instances are sent to worker processes, so they must be picklable."""

    def evaluate(self, plan: DeploymentPlan, *, concurrency_override: int | None = None) -> dict[str, float]:
        """Return the flat report of numbers of one run of `plan`."""
        ...


class RunnerContractError(ReplayError):
    """A replay ended without a metric that the goal needs."""


class ReplayEvaluator:
    """Replays each plan against one workload and goal (spec 05 section 10.2).

    `trace_block_size` (tokens) overrides the workload's own; None keeps that (512 unless set, which the
    reference uses always). `benchmark_granularity` belongs to runtimes that profile their engines first;
    this one reads measured kernel data and has nothing to sample. `check`: hold every replay to the
    invariants; a broken one is a `ReplayError` that names it. `calibration` is written out in every payload.
    """

    def __init__(
        self,
        workload: Workload,
        goal: OptimizationGoal,
        *,
        trace_block_size: int | None = None,
        benchmark_granularity: int = 8,
        check: bool = False,
        calibration: Mapping[str, Any] | None = None,
    ) -> None:
        del benchmark_granularity
        override = {} if trace_block_size is None else {"trace_block_size": trace_block_size}
        self._workload = workload.model_copy(update=override)
        self._goal = goal
        self._check = check
        self._calibration = calibration

    @property
    def can_be_short(self) -> bool:
        """Whether `evaluate_short` may be asked: what is checked is replayed to its end."""
        return not self._check

    def evaluate(self, plan: DeploymentPlan, *, concurrency_override: int | None = None) -> dict[str, float]:
        """Replay `plan` and return the numeric report keys, except those of the simulator's own run time.

        Requests rejected for a reason are counted under `rejected_requests.<reason>`.

        `concurrency_override` (requests in flight) is a KV load resolved for this candidate.

        Raises:
            RunnerContractError: the goal counts goodput and the report has none.
            AISimulateError: the plan cannot be replayed.
        """
        payload = self.payload(plan, concurrency_override=concurrency_override)
        return self._measured(_own_replays().replay_whole(payload, check=self._check))

    def evaluate_short(
        self, plan: DeploymentPlan, *, concurrency_override: int | None = None
    ) -> dict[str, float]:
        """Replay as much of the traffic as a search needs to compare deployments.

        A closed loop ends when it has settled, of a trace only the beginning is served; the report says so
        (`EARLY_STOP_KEY`, `FIRST_SESSIONS_KEY`), and is like that of `evaluate` otherwise. Raises like it.
        """
        payload = self.payload(plan, concurrency_override=concurrency_override)
        sessions = SHORT_SESSIONS if self._workload.is_trace_based else None
        return self._measured(_own_replays().replay_part(payload, sessions=sessions))

    def _measured(self, report: dict[str, Any]) -> dict[str, float]:
        numbers = _numbers(report)
        if any(target.needs_sla for target in self._goal.targets) and GOODPUT_KEY not in numbers:
            raise RunnerContractError(
                f"the report has no {GOODPUT_KEY}: per-request SLA accounting is missing, "
                "and means cannot stand in for it"
            )
        return numbers

    def payload(self, plan: DeploymentPlan, *, concurrency_override: int | None = None) -> dict[str, Any]:
        """Build the payload that `evaluate` replays; `run_replay_json` takes the same as JSON text."""
        spec = replay_spec(plan, self._goal.sla) | replay_frontend(self._workload)
        if self._calibration is not None:
            spec["calibration"] = self._calibration
        return {
            "spec": spec,
            "traffic": replay_traffic(self._workload, concurrency_override=concurrency_override),
        }


def load_simulator() -> None:
    """Import what replays, which takes a while; else the first replay does it."""
    _own_replays()


def _own_replays() -> Any:  # noqa: ANN401 - a module
    return importlib.import_module("aisimulate.spica.own_replays")


def _numbers(report: dict[str, Any]) -> dict[str, float]:
    numbers = {key: value for key, value in numeric_entries(report).items() if key not in _WALL_CLOCK_KEYS}
    reasons: dict[str, int] = report.get("rejection_reasons") or {}
    return numbers | {f"{REJECTION_PREFIX}{reason}": count for reason, count in reasons.items()}
