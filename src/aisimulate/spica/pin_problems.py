"""Why a pinned config is in no pool, in words that name the legal values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.spica.model_hw import SINGLE_GPU_MOE_HINT, gpus, search_model_facts
from aisimulate.spica.parallel_enum import (
    BACKENDS,
    DEFAULT_WORKER_SIZES_GPUS,
    enumerate_worker_shapes,
    role_pools,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.spica.config_space import SearchSpace
    from aisimulate.spica.parallel_enum import ParallelConfig, ParallelShape


def pin_problem(config: ParallelConfig, space: SearchSpace) -> str:
    """Name the first rule that a pinned config breaks; empty when only KV cache or data can be at fault."""
    is_moe = _is_moe(space)
    problems = [
        problem
        for pool in role_pools(config).values()
        for problem in (*_size_problems(pool.shape), *_model_problems(pool.shape, is_moe, space))
    ]
    return next(iter([*problems, *_budget_problems(config, space)]), "")


def _is_moe(space: SearchSpace) -> bool | None:
    """Whether the model is a mixture of experts; None when it is unknown."""
    try:
        return search_model_facts(space.model_name, space.allow_model_download).is_moe
    except (ValueError, RuntimeError):
        # Enumeration asks too and tells the user.
        return None


def _size_problems(shape: ParallelShape) -> Iterator[str]:
    attention, experts = shape.tp * shape.dp, shape.moe_tp * shape.moe_ep
    if experts not in (1, attention):
        yield f"tp x attention_dp = {attention}, but moe_tp x moe_ep = {experts}"
    if shape.pp != 1:
        yield f"pp must be 1, not {shape.pp}"
    if attention not in DEFAULT_WORKER_SIZES_GPUS:
        sizes = ", ".join(map(str, DEFAULT_WORKER_SIZES_GPUS))
        yield f"tp x attention_dp must be one of {sizes}, not {attention}"


def _model_problems(shape: ParallelShape, is_moe: bool | None, space: SearchSpace) -> Iterator[str]:
    if is_moe is None:
        return
    size = shape.gpus_per_worker
    legal = enumerate_worker_shapes(
        is_moe=is_moe, backend=BACKENDS[0], gpus_per_worker=size, include_single_gpu_moe=True
    )
    if shape not in legal:
        kind = "a mixture of experts" if is_moe else "a dense model"
        forms = " or ".join(_written(form) for form in legal)
        yield f"{kind} on {gpus(size)} takes {forms}"
    elif is_moe and size == 1 and not space.include_single_gpu_moe:
        yield f"{space.model_name} is a mixture of experts, and {SINGLE_GPU_MOE_HINT}"


def _written(shape: ParallelShape) -> str:
    """Spell a shape as a user would pin it."""
    sizes = {"attention_dp": shape.dp, "moe_tp": shape.moe_tp, "moe_ep": shape.moe_ep}
    others = "".join(f", {name}: {size}" for name, size in sizes.items() if size > 1)
    return f"{{tp: {shape.tp}{others}}}"


def _budget_problems(config: ParallelConfig, space: SearchSpace) -> Iterator[str]:
    total = config.total_gpus
    if total > space.gpu_budget:
        yield f"it takes {gpus(total)}, but gpu_budget is {space.gpu_budget}"
    if total < (space.min_gpu_budget or 1):
        yield f"it takes {gpus(total)}, but min_gpu_budget is {space.min_gpu_budget}"
