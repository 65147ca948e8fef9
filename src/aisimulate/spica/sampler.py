"""Samplers by name. `make_branch_sampler` is the default factory of `run_smart_search`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError, nearest
from aisimulate.spica.samplers.base import BranchSampler, Suggestion
from aisimulate.spica.samplers.grid import GridSampler
from aisimulate.spica.samplers.random_sampler import RandomSampler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.samplers.pool_gp_sampler import ObjectiveScreen
    from aisimulate.spica.search_space import BranchSpace

__all__ = ["SAMPLER_POLICIES", "BranchSampler", "Suggestion", "make_branch_sampler"]

SAMPLER_POLICIES = ("pool-gp", "random", "grid")


def make_branch_sampler(
    branch: BranchSpace,
    *,
    study_id: str,
    objectives: Sequence[tuple[str, bool]] | None = None,
    seed: int = 1,
    policy: str = "random",
    screen: ObjectiveScreen | None = None,
) -> BranchSampler:
    """Build the sampler `policy` for one branch (spec 05 section 7).

    `objectives` lists (metric name, maximise) of a Pareto goal, None for a scalar one; `study_id` names the
    study of a sampler that keeps one. `screen` estimates objectives without a replay, for a sampler that
    learns.

    Raises:
        InputError: `policy` is unknown, or the grid is asked to walk a continuous range.
    """
    del study_id
    if policy == "pool-gp":  # imported on first use: it needs scipy
        module = importlib.import_module("aisimulate.spica.samplers.pool_gp_sampler")
        sampler: BranchSampler = module.PoolGpSampler(branch, objectives=objectives, seed=seed, screen=screen)
        return sampler
    if policy == "random":
        return RandomSampler(branch, seed=seed)
    if policy == "grid":
        return GridSampler(branch)
    legal = ", ".join(SAMPLER_POLICIES)
    raise InputError(
        f"sweep.sampler: {policy!r} is not one of auto, {legal}{nearest(policy, SAMPLER_POLICIES)}"
    )
