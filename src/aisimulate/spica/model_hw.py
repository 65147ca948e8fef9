"""Model and hardware facts, and the pool of parallel configs they allow (spec 05 sections 4.3 and 4.4)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError, nearest
from aisimulate.core.shown import show
from aisimulate.spica.dropped_shapes import DroppedShape, summarise_drops
from aisimulate.spica.kv_estimate import (
    DEFAULT_MAX_BATCH_SIZE,
    DEFAULT_MAX_NUM_TOKENS,
    DEFAULT_MEMORY_FRACTION,
    RoleKnobs,
    estimator_missing_reason,
    feasible_shape_tokens,
    resolve_backend_version,
    shape_engine_key,
)
from aisimulate.spica.parallel_enum import (
    ROLES,
    enumerate_disagg_configs,
    enumerate_parallel_configs,
    role_pools,
)
from aisimulate.spica.timing_probe import timed_shapes
from aisimulate.timing.aic.errors import ModelNotAvailable
from aisimulate.timing.aic.names import model_facts
from aisimulate.timing.aic.system import known_systems, system_facts
from aisimulate.timing.aic.weights import weight_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aisimulate.spica.config_space import SearchSpace
    from aisimulate.spica.parallel_enum import ParallelConfig, ParallelShape
    from aisimulate.timing.aic.names import ModelFacts

# A large-scale expert-parallel deployment is called for when the weights fill half a node.
_WIDE_EP_NODE_SHARE = 2

SINGLE_GPU_MOE_HINT = "one-GPU workers are not tried; set search_space.include_single_gpu_moe: true"
"""Said of a mixture of experts wherever its one-GPU worker is missed."""


class NoViableParallelConfig(InputError):
    """No parallel config of the request fits the budget and holds its sequences."""


class NoTimingData(NoViableParallelConfig):
    """Parallel configs would fit, but there are no performance data to time them with."""


@dataclass(frozen=True, slots=True)
class ModelHardware:
    """Facts of a model on a kind of GPU. `mla` and `enable_wideep` are for reports only.

    `weight_bytes` counts the undivided weights in their served data types, `vram_per_gpu` is in bytes,
    `max_context` in tokens.
    """

    model_name: str
    hardware_sku: str
    backend: str
    is_moe: bool
    mla: bool
    enable_wideep: bool
    weight_bytes: int
    vram_per_gpu: int
    gpus_per_node: int
    max_context: int


def check_hardware_sku(hardware_sku: str) -> None:
    """Raise InputError, listing the known SKUs and the nearest one, unless `hardware_sku` is known."""
    known = known_systems()
    if hardware_sku not in known:
        raise InputError(
            f"search_space.hardware_sku: unknown hardware_sku {show(hardware_sku)}; known: {', '.join(known)}"
            f"{nearest(hardware_sku, known)}"
        )


def search_model_facts(model_name: str, allow_model_download: bool = False) -> ModelFacts:
    """Read the configuration of the model of a search. Raises InputError naming search_space.model_name."""
    try:
        return model_facts(model_name, allow_model_download)
    except ModelNotAvailable as error:
        problem = error.problem.replace("allow_model_download", "search_space.allow_model_download")
        raise ModelNotAvailable(problem, "search_space.model_name") from None


def resolve_model_hardware(
    model_name: str, hardware_sku: str, backend: str = "vllm", allow_model_download: bool = False
) -> ModelHardware:
    """Look up a model and a SKU. Raises InputError for an unknown SKU, model or backend."""
    check_hardware_sku(hardware_sku)
    model, system = search_model_facts(model_name, allow_model_download), system_facts(hardware_sku)
    weights = weight_bytes(model_name, backend, allow_model_download)
    node_bytes = system.gpus_per_node * system.capacity_bytes
    return ModelHardware(
        model_name=model_name,
        hardware_sku=hardware_sku,
        backend=backend,
        is_moe=model.is_moe,
        mla=model.is_moe and model.architecture != "Qwen3MoeForCausalLM",
        enable_wideep=model.is_moe and node_bytes < _WIDE_EP_NODE_SHARE * weights,
        weight_bytes=weights,
        vram_per_gpu=system.capacity_bytes,
        gpus_per_node=system.gpus_per_node,
        max_context=model.context_tokens,
    )


def single_gpu_notes(space: SearchSpace) -> list[str]:
    """Note what `include_single_gpu_moe` leaves out although the weights would fit, or that it cannot act."""
    hardware = _known_hardware(space)
    if hardware is None:
        return []
    if space.include_single_gpu_moe:
        idle = f"include_single_gpu_moe: no effect on {space.model_name}, which has no experts"
        return [] if hardware.is_moe else [idle]
    if not _is_single_gpu_moe(hardware) or space.parallel_configs:
        return []
    return [f"{space.model_name} is a mixture of experts: {SINGLE_GPU_MOE_HINT}"]


def fits_one_gpu_moe(space: SearchSpace) -> bool:
    """Whether the model is a mixture of experts whose weights fit one GPU; not when it is unknown."""
    hardware = _known_hardware(space)
    return hardware is not None and _is_single_gpu_moe(hardware)


def _known_hardware(space: SearchSpace) -> ModelHardware | None:
    names = (space.model_name, space.hardware_sku, space.backend[0], space.allow_model_download)
    try:
        return resolve_model_hardware(*names)
    except (ValueError, RuntimeError):
        # Enumeration asks the same and tells the user; an injected space needs no answer.
        return None


def _is_single_gpu_moe(hardware: ModelHardware) -> bool:
    return hardware.is_moe and hardware.weight_bytes < hardware.vram_per_gpu


def max_sequence_tokens(
    model_name: str, context_length: int | None, allow_model_download: bool = False
) -> int:
    """Give the longest sequence to provide for: `context_length`, or the model's maximum."""
    if context_length is not None:
        return context_length
    return search_model_facts(model_name, allow_model_download).context_tokens


def length_hint(context_length: int | None) -> str:
    """Say in parentheses what to do about a sequence length that nobody asked for."""
    if context_length is not None:
        return ""
    return " (the model's maximum; set search_space.context_length if you serve shorter sequences)"


@dataclass(frozen=True, slots=True)
class _Request:
    """What a pool is asked for, in one value."""

    hardware: ModelHardware
    deployment_mode: str
    gpu_budget: int
    backend_version: str
    max_seq_len: int
    role_knobs: Mapping[str, RoleKnobs]
    length_hint: str = ""
    allow_model_download: bool = False

    @property
    def subject(self) -> str:
        """The request for a message."""
        hw = self.hardware
        return (
            f"{hw.model_name} on {hw.hardware_sku} with {hw.backend} in {self.deployment_mode} mode "
            f"within {gpus(self.gpu_budget)}"
        )

    @property
    def engine(self) -> dict[str, Any]:
        """The arguments that name an engine, whatever its shape."""
        hw = self.hardware
        return {
            "model_name": hw.model_name,
            "hardware_sku": hw.hardware_sku,
            "backend": hw.backend,
            "backend_version": self.backend_version,
            "allow_model_download": self.allow_model_download,
        }


def _restrict(
    pool: Sequence[ParallelConfig], keep: Callable[[str, list[ParallelShape]], Sequence[ParallelShape]]
) -> list[ParallelConfig]:
    """Keep the configs whose every role has a shape that `keep(role, distinct shapes)` returns."""
    shapes: dict[str, dict[ParallelShape, None]] = {}
    for config in pool:
        for role, workers in role_pools(config).items():
            shapes.setdefault(role, {})[workers.shape] = None
    kept = {role: set(keep(role, list(distinct))) for role, distinct in shapes.items()}
    return [
        config
        for config in pool
        if all(workers.shape in kept[role] for role, workers in role_pools(config).items())
    ]


@lru_cache(maxsize=1)
def _warn_estimator_missing(reason: str) -> None:
    """Warn once per process."""
    warnings.warn(f"parallel configs are not filtered by KV capacity: {reason}", stacklevel=2)


def _kv_feasible(
    pool: list[ParallelConfig], request: _Request, on_drop: Callable[[DroppedShape], None]
) -> list[ParallelConfig]:
    """Drop configs of which some role's rank cannot hold one sequence."""
    missing = estimator_missing_reason()
    if missing:
        _warn_estimator_missing(missing)
        return pool

    def keep(role: str, shapes: list[ParallelShape]) -> list[ParallelShape]:
        knobs = request.role_knobs[role]
        tokens = feasible_shape_tokens(
            shapes,
            **request.engine,
            max_seq_len=request.max_seq_len,
            max_num_tokens=knobs.max_num_tokens,
            memory_fraction=knobs.memory_fraction,
            given_tokens=knobs.given_tokens,
            role=role,
            length_hint=request.length_hint,
            on_drop=on_drop,
        )
        return list(tokens)

    return _restrict(pool, keep)


def _timed(
    pool: list[ParallelConfig], request: _Request, on_drop: Callable[[DroppedShape], None]
) -> list[ParallelConfig]:
    """Drop configs of which some role's shape has no timing data."""
    key_of = partial(shape_engine_key, **request.engine)
    return _restrict(
        pool, lambda role, shapes: timed_shapes(shapes, role=role, key_of=key_of, on_drop=on_drop)
    )


def parallel_configs_for(
    model_name: str,
    hardware_sku: str,
    *,
    gpu_budget: int,
    deployment_mode: str,
    backend: str,
    max_seq_len: int | None = None,
    min_gpu_budget: int | None = None,
    max_num_tokens: int = DEFAULT_MAX_NUM_TOKENS,
    max_batch_size: int = DEFAULT_MAX_BATCH_SIZE,
    memory_fraction: float = DEFAULT_MEMORY_FRACTION,
    role_knobs: Mapping[str, RoleKnobs] | None = None,
    include_single_gpu_moe: bool = False,
    allow_model_download: bool = False,
    backend_version: str | None = None,
    on_drop: Callable[[DroppedShape], None] | None = None,
) -> list[ParallelConfig]:
    """List the configs that fit the budget, hold a sequence in every rank's KV and can be timed.

    `max_seq_len` None stands for the model's maximum. `role_knobs` replaces `max_num_tokens` and
    `memory_fraction` per role; `max_batch_size` does not matter. `backend_version` None is the current one.
    `on_drop` receives each shape that a role
    had to give up. Raises NoViableParallelConfig when nothing is left (NoTimingData: for want of timing
    data only), NoPerfDatabase when the SKU has no data, InputError for an unknown name or mode.
    """
    del max_batch_size
    roles = _roles_of(deployment_mode)
    hardware = resolve_model_hardware(model_name, hardware_sku, backend, allow_model_download)
    request = _Request(
        hardware=hardware,
        deployment_mode=deployment_mode,
        gpu_budget=gpu_budget,
        backend_version=resolve_backend_version(hardware_sku, backend, backend_version),
        max_seq_len=hardware.max_context if max_seq_len is None else max_seq_len,
        role_knobs=role_knobs or dict.fromkeys(roles, RoleKnobs(max_num_tokens, memory_fraction)),
        length_hint=length_hint(max_seq_len),
        allow_model_download=allow_model_download,
    )
    pool = _enumerate(hardware, deployment_mode, gpu_budget, min_gpu_budget, include_single_gpu_moe)
    if not pool:
        raise _nothing_fits(request, min_gpu_budget)
    configs, drops = _viable(pool, request)
    if on_drop:
        for drop in drops:
            on_drop(drop)
    return configs


def _roles_of(deployment_mode: str) -> tuple[str, ...]:
    if deployment_mode not in ROLES:
        legal = ", ".join(ROLES)
        raise InputError(
            f"deployment_mode: {deployment_mode!r} is not one of {legal}{nearest(deployment_mode, ROLES)}"
        )
    return ROLES[deployment_mode]


def _enumerate(
    hardware: ModelHardware, mode: str, gpu_budget: int, min_gpu_budget: int | None, single_gpu_moe: bool
) -> list[ParallelConfig]:
    options: dict[str, Any] = {
        "is_moe": hardware.is_moe,
        "backend": hardware.backend,
        "gpu_budget": gpu_budget,
        "min_gpu_budget": min_gpu_budget,
        "enable_wideep": hardware.enable_wideep,
        "include_single_gpu_moe": single_gpu_moe,
    }
    if mode == "disagg":
        return list(enumerate_disagg_configs(**options))
    return list(enumerate_parallel_configs(**options))


def _nothing_fits(request: _Request, min_gpu_budget: int | None) -> NoViableParallelConfig:
    """Say why no number of workers of any size is within the budget."""
    hardware, mode, budget = request.hardware, request.deployment_mode, request.gpu_budget
    if hardware.is_moe and _enumerate(hardware, mode, budget, min_gpu_budget, True):
        why = f"{hardware.model_name} is a mixture of experts, and {SINGLE_GPU_MOE_HINT}"
    elif mode == "disagg" and budget < 2:
        why = "a prefill and a decode worker need one each"
    else:
        why = f"no number of workers fills at least {gpus(min_gpu_budget or 1)}"
    return NoViableParallelConfig(f"no parallel config for {request.subject}: no worker fits, because {why}")


def gpus(number: int) -> str:
    """Count GPUs in words of a message."""
    return f"{number} GPU{'s' * (number != 1)}"


def _viable(pool: list[ParallelConfig], request: _Request) -> tuple[list[ParallelConfig], list[DroppedShape]]:
    """Filter a pool, raising with every reason when nothing is left."""
    drops: list[DroppedShape] = []
    feasible = _kv_feasible(pool, request, drops.append)
    if not feasible:
        raise NoViableParallelConfig(
            f"no viable parallel config for {request.subject}: by the KV-cache estimate nothing holds more "
            f"than {request.max_seq_len} tokens{request.length_hint} ({'; '.join(summarise_drops(drops))})"
        )
    timed = _timed(feasible, request, drops.append)
    if not timed:
        raise NoTimingData(
            f"no timing data for {request.subject}: the KV-cache estimate admits {len(feasible)} configs, "
            f"but none can be timed ({'; '.join(summarise_drops(drops))})"
        )
    return timed, drops
