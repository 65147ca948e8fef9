"""What a search is going to do, known before the first replay; also the answer of a dry run."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.config.sla_doubts import sla_doubts
from aisimulate.core.errors import InputError
from aisimulate.replay.capabilities import CURRENT
from aisimulate.spica.calibrated import check_calibration, of_calibrated_shape
from aisimulate.spica.data_notes import data_notes
from aisimulate.spica.finite_space import branch_backends, finite_size
from aisimulate.spica.loop import Budget
from aisimulate.spica.model_hw import single_gpu_notes
from aisimulate.spica.policy import effective_config
from aisimulate.spica.sampler_names import require_executor, require_sampler
from aisimulate.spica.samplers.grid import refuse_ranges
from aisimulate.spica.samplers.vizier_names import vizier_algorithm
from aisimulate.spica.search_space import enumerate_branches
from aisimulate.spica.trace_facts import read_trace_facts

if TYPE_CHECKING:
    from aisimulate.replay.capabilities import Capabilities
    from aisimulate.spica.config import SmartSearchConfig
    from aisimulate.spica.search_space import BranchSpace


_DRAWLESS = {"grid", "focused"}
UNLIMITED_ROUNDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The filtered config, its branches, and the sampler policy per branch (by deployment mode).

    `notes` tell the user, one line each, what was dropped and why. `model_context_tokens` is the longest
    sequence a request may reach, None when unknown; `trace_digest` is the SHA-256 of the trace file,
    `trace_sessions` how many it has (0 without one, and for a graph of requests).
    """

    config: SmartSearchConfig
    branches: list[BranchSpace]
    policies: dict[str, str]
    notes: list[str]
    model_context_tokens: int | None = None
    trace_digest: str | None = None
    trace_sessions: int = 0

    @property
    def budget(self) -> Budget:
        """The effort per branch."""
        return sweep_budget(self.config)

    @property
    def backends(self) -> list[str]:
        """Every backend that some branch can use, in first-seen order."""
        names = [name for branch in self.branches for name in branch_backends(branch)]
        return list(dict.fromkeys(names))

    @property
    def total_measurements(self) -> int:
        """The most feasible measurements the search can end with."""
        sizes = [finite_size(branch) for branch in self.branches]
        found = sum(self.budget.total if size is None else min(size, self.budget.total) for size in sizes)
        return found if self.budget.max_trials is None else min(found, self.budget.max_trials)


def sweep_budget(config: SmartSearchConfig) -> Budget:
    """Read the effort per branch from a config; `max_trials` is that of all branches together.

    Rounds that nobody asked for are no limit beside a number of trials, nor to a policy that ends by itself.
    """
    sweep = config.sweep
    rounds = sweep.max_rounds
    if "max_rounds" not in sweep.model_fields_set:
        if sweep.max_trials is not None:
            rounds = sweep.max_trials
        elif sweep.policy != "rapid":
            rounds = UNLIMITED_ROUNDS
    return Budget(rounds, sweep.per_round, sweep.max_trials, is_exhaustive=sweep.policy != "rapid")


def plan_search(config: SmartSearchConfig, *, capabilities: Capabilities | None = CURRENT) -> SearchPlan:
    """Filter the config by goal and capability, read the trace, enumerate the branches.

    `capabilities` None: the user's own evaluator decides what can be measured.

    Raises:
        ValueError: nothing is left to search, a grid is asked for a continuous range, or (`InputError`)
            the trace, model or SKU cannot be used, or an extra is missing.
    """
    require_executor(config.sweep.executor)
    config = _with_algorithm(config)
    filtered, notes = effective_config(config, capabilities)
    trace = read_trace_facts(filtered)
    if trace.is_agentic:
        # Known only now: what needs no trace is refused before one is read.
        filtered, notes = effective_config(config, capabilities, is_agentic=True)
    branches, branch_notes = _enumerate(filtered, capabilities)
    if capabilities is not None:  # another evaluator does not replay
        branches, dropped = of_calibrated_shape(filtered, branches)
        branch_notes += dropped
    policies = {branch.deployment_mode: sampler_policy(filtered, branch) for branch in branches}
    notes = [
        *notes,
        *_sla_notes(filtered),
        *trace.notes,
        *single_gpu_notes(filtered.search_space),
        *branch_notes,
        *_order_notes(filtered, branches),
    ]
    notes += check_calibration(filtered)
    notes += _coverage_notes(filtered, branches, policies)
    if capabilities is not None:  # another evaluator does not use the data
        notes += data_notes(filtered.search_space, branches)
    sessions = 0 if trace.is_agentic else trace.sessions
    return SearchPlan(filtered, branches, policies, notes, trace.model_context_tokens, trace.digest, sessions)


def _sla_notes(config: SmartSearchConfig) -> list[str]:
    sla = config.goal.sla
    return [] if sla is None else sla_doubts(sla.bounds, "goal.sla")


def _order_notes(config: SmartSearchConfig, branches: list[BranchSpace]) -> list[str]:
    if config.sweep.mode_order == "one_by_one" or len(branches) > 1:
        return []
    return [
        f"sweep.mode_order: {config.sweep.mode_order} changes nothing, as one deployment mode is searched"
    ]


def sampler_policy(config: SmartSearchConfig, branch: BranchSpace) -> str:
    """Resolve `sweep.sampler` for one branch: auto is the grid where it fits the budget, else pool-gp."""
    size = finite_size(branch)
    chosen = config.sweep.chosen_sampler
    if chosen == "focused":
        _refuse_front(config)
        refuse_ranges(branch, chosen)
    if chosen == "auto":
        return "grid" if size is not None and size <= sweep_budget(config).total else "pool-gp"
    if chosen == "grid":
        refuse_ranges(branch)
    require_sampler(chosen)
    return chosen


def _refuse_front(config: SmartSearchConfig) -> None:
    if config.goal.is_pareto:
        field, other = ("policy", "rapid") if config.sweep.policy == "focused" else ("sampler", "pool-gp")
        raise InputError(f"sweep.{field}: focused climbs one goal, not a Pareto front; use {other}")


def _with_algorithm(config: SmartSearchConfig) -> SmartSearchConfig:
    """Write down the algorithm of Vizier that a variable of the environment may choose."""
    if config.sweep.sampler != "vizier":
        return config
    algorithm = vizier_algorithm(config.sweep.sampler_algorithm, os.environ)
    sweep = config.sweep.model_copy(update={"sampler_algorithm": algorithm})
    return config.model_copy(update={"sweep": sweep})


def _enumerate(
    config: SmartSearchConfig, capabilities: Capabilities | None
) -> tuple[list[BranchSpace], list[str]]:
    """Enumerate the branches; the warnings about skipped modes become notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        branches = enumerate_branches(
            config, max_seq_len=config.search_space.context_length, capabilities=capabilities
        )
    notes = [str(item.message) for item in caught if issubclass(item.category, UserWarning)]
    for branch in branches:
        notes += branch.notes
    return branches, notes


def _coverage_notes(
    config: SmartSearchConfig, branches: list[BranchSpace], policies: dict[str, str]
) -> list[str]:
    budget, notes = sweep_budget(config).total, []
    for branch in branches:
        size = finite_size(branch)
        if policies[branch.deployment_mode] == "grid" and size is not None and size > budget:
            notes.append(
                f"{branch.deployment_mode}: the grid has {size} points, but the budget of {budget} "
                "measurements may end before its last one"
            )
    if "random_seed" in config.sweep.model_fields_set and set(policies.values()) <= _DRAWLESS:
        names = " and ".join(sorted(set(policies.values())))
        notes.append(f"sweep.random_seed: no effect with the {names} sampler, which draws nothing")
    return notes
