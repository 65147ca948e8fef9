"""Samplers by name. `make_branch_sampler` is the default factory of `run_smart_search`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError, nearest
from aisimulate.spica.sampler_names import (
    SAMPLER_ALGORITHMS,
    SAMPLER_POLICIES,
    foreign_sampler,
    require_sampler,
)
from aisimulate.spica.samplers.base import BranchSampler, Suggestion
from aisimulate.spica.samplers.checked import build_sampler
from aisimulate.spica.samplers.focused import FocusedSampler
from aisimulate.spica.samplers.grid import GridSampler
from aisimulate.spica.samplers.quasi_random import QuasiRandomSampler
from aisimulate.spica.samplers.random_sampler import RandomSampler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.spica.samplers.pool_gp_sampler import ObjectiveScreen
    from aisimulate.spica.samplers.vizier_sampler import AskLimits
    from aisimulate.spica.search_space import BranchSpace

__all__ = ["SAMPLER_POLICIES", "BranchSampler", "Suggestion", "make_branch_sampler"]


def make_branch_sampler(
    branch: BranchSpace,
    *,
    study_id: str,
    objectives: Sequence[tuple[str, bool]] | None = None,
    seed: int = 1,
    policy: str = "random",
    screen: ObjectiveScreen | None = None,
    algorithm: str | None = None,
    limits: AskLimits | None = None,
) -> BranchSampler:
    """Build the sampler `policy` for one branch (spec 05 section 7).

    `objectives` lists (metric name, maximise) of a Pareto goal, None for a scalar one; `study_id` names the
    study of a sampler that keeps one. `screen` estimates objectives without a replay, for a sampler that
    learns. `algorithm` (None: its default) and `limits` of one ask are for samplers of other libraries.

    Raises:
        InputError: `policy` is unknown or its extra is not installed, or the grid is asked to walk a
            continuous range.
    """
    require_sampler(policy)
    if policy == "random":
        return RandomSampler(branch, seed=seed)
    if policy == "quasi-random":
        return QuasiRandomSampler(branch, seed=seed)
    if policy == "grid":
        return GridSampler(branch)
    if policy == "focused":
        return FocusedSampler(branch, objectives=objectives)
    if policy == "pool-gp":
        return _made("pool_gp_sampler", "PoolGpSampler", branch, seed, objectives, screen=screen)
    chosen = algorithm or SAMPLER_ALGORITHMS.get(policy, ("",))[0]
    if policy == "optuna":
        return _made("optuna_sampler", "OptunaSampler", branch, seed, objectives, algorithm=chosen)
    if policy == "vizier":
        options = {"study_id": study_id, "algorithm": chosen, "limits": limits}
        return _made("vizier_sampler", "VizierSampler", branch, seed, objectives, **options)
    return _foreign(policy, branch, study_id, seed, objectives)


def _made(
    module: str,
    name: str,
    branch: BranchSpace,
    seed: int,
    objectives: Sequence[tuple[str, bool]] | None,
    **options: object,
) -> BranchSampler:
    """Make one of our samplers that needs a heavy library, which is imported on first use."""
    maker = getattr(importlib.import_module(f"aisimulate.spica.samplers.{module}"), name)
    sampler: BranchSampler = maker(branch, seed=seed, objectives=objectives, **options)
    return sampler


def _foreign(
    policy: str,
    branch: BranchSpace,
    study_id: str,
    seed: int,
    objectives: Sequence[tuple[str, bool]] | None,
) -> BranchSampler:
    """Make the sampler of an entry point."""
    point = foreign_sampler(policy)
    if point is None:
        legal = ", ".join(SAMPLER_POLICIES)
        raise InputError(
            f"sweep.sampler: {policy!r} is not one of auto, {legal}{nearest(policy, SAMPLER_POLICIES)}"
        )
    try:
        factory = point.load()
    except Exception as error:  # whatever importing somebody's module raises
        raise InputError(f"sweep.sampler: {policy} ({point.value}) cannot be loaded: {error}") from error
    listed = None if objectives is None else list(objectives)
    return build_sampler(factory, branch, study_id=study_id, objectives=listed, extras={"seed": seed})
