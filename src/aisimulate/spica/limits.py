"""Limits of a search that concern several fields at once, checked when the config is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.config.base import U32_MAX, FieldError
from aisimulate.config.rank import SglangConfig
from aisimulate.core.limits import MAX_BLOCK_TOKENS, MAX_BLOCKS, MAX_GPUS, MAX_REQUESTS
from aisimulate.spica.parallel_enum import ROLES

if TYPE_CHECKING:
    from aisimulate.spica.config_space import SearchSpace
    from aisimulate.spica.config_workload import Workload

_SMALLEST_BLOCK_TOKENS = {"sglang": 1}
SGLANG_CHUNK_TOKENS: int = SglangConfig.model_fields["chunked_prefill_size"].default
"""A search gives SGLang its batched tokens for the memory estimate only: prompts are cut at the default."""


def check_space_limits(space: SearchSpace) -> None:
    """Raise FieldError for more GPUs than can be enumerated, or a block size that a backend refuses."""
    if space.gpu_budget > MAX_GPUS:
        raise FieldError("gpu_budget", f"gpu_budget must be at most {MAX_GPUS}, got {space.gpu_budget}")
    for mode in space.deployment_mode:
        for role in ROLES[mode]:
            name = f"{role}_block_size"
            _check_block(name, getattr(space, name), space.backend)
            _check_capacity(f"{role}_num_gpu_blocks", getattr(space, f"{role}_num_gpu_blocks"))


def check_request_limits(workload: Workload) -> None:
    """Raise FieldError for more requests or groups than can be replayed, as far as the load is known."""
    if workload.num_prefix_groups > U32_MAX:
        problem = f"num_prefix_groups must be at most {U32_MAX}, got {workload.num_prefix_groups}"
        raise FieldError("num_prefix_groups", problem)
    load = workload.request_rate if workload.concurrency is None else workload.concurrency
    if load is None or workload.num_request_ratio is None:
        return
    requests = workload.num_request_ratio * load * workload.turns_per_session
    if not requests <= MAX_REQUESTS:
        problem = f"num_request_ratio gives {requests:.15g} requests, but at most {MAX_REQUESTS} are possible"
        raise FieldError("num_request_ratio", problem)


def _check_capacity(name: str, blocks: int | None) -> None:
    if blocks is not None and blocks > MAX_BLOCKS:
        raise FieldError(name, f"{name} must be at most {MAX_BLOCKS}, got {blocks}")


def _check_block(name: str, tokens: int, backends: list[str]) -> None:
    if tokens > MAX_BLOCK_TOKENS:
        raise FieldError(name, f"{name} must be at most {MAX_BLOCK_TOKENS}, got {tokens}")
    for backend in backends:
        least = _SMALLEST_BLOCK_TOKENS.get(backend, 2)
        if tokens < least:
            raise FieldError(name, f"{name} must be at least {least} for {backend}, got {tokens}")
        if backend == "sglang" and SGLANG_CHUNK_TOKENS % tokens:
            problem = (
                f"{name} must divide the {SGLANG_CHUNK_TOKENS} tokens of a chunk of sglang, got {tokens}"
            )
            raise FieldError(name, problem)
