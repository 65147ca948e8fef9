"""Which parallel shapes a worker may take, and which pools of workers fit a GPU budget.

Pure combinatorics: no model data, no performance data (spec 05 sections 4.1 and 4.2).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from aisimulate.core.errors import InputError, nearest
from aisimulate.core.limits import MAX_PAIRS

if TYPE_CHECKING:
    from collections.abc import Sequence

BACKENDS = ("vllm", "sglang", "trtllm")
# The roles of each deployment mode; the last one carries the decode load.
ROLES = {"agg": ("agg",), "disagg": ("prefill", "decode")}
DEFAULT_WORKER_SIZES_GPUS = (1, 2, 4, 8, 16)

# These SGLang expert kernels cannot split one expert over ranks.
_EXPERT_PARALLEL_ONLY = frozenset({"deepep_moe", "megamoe"})


@dataclass(frozen=True, slots=True)
class ParallelShape:
    """How one worker spreads the model over its GPUs.

    `dp` is attention data parallelism. A legal MoE shape has `tp * dp == moe_tp * moe_ep`.
    """

    tp: int
    dp: int
    moe_tp: int
    moe_ep: int
    pp: int = 1

    @property
    def gpus_per_worker(self) -> int:
        """GPUs of one worker."""
        return self.tp * self.pp * self.dp


@dataclass(frozen=True, slots=True)
class ReplicaParallelConfig:
    """A pool of equal workers."""

    shape: ParallelShape
    replicas: int

    @property
    def total_gpus(self) -> int:
        """GPUs of the whole pool."""
        return self.shape.gpus_per_worker * self.replicas


@dataclass(frozen=True, slots=True)
class DisaggParallelConfig:
    """A prefill pool beside a decode pool; their worker sizes need not be equal."""

    prefill: ReplicaParallelConfig
    decode: ReplicaParallelConfig

    @property
    def total_gpus(self) -> int:
        """GPUs of both pools."""
        return self.prefill.total_gpus + self.decode.total_gpus


ParallelConfig: TypeAlias = ReplicaParallelConfig | DisaggParallelConfig


def role_pools(config: ParallelConfig) -> dict[str, ReplicaParallelConfig]:
    """Name a config's pools by role, in the order of `ROLES`."""
    if isinstance(config, DisaggParallelConfig):
        return {"prefill": config.prefill, "decode": config.decode}
    return {"agg": config}


def shape_prefix(role: str) -> str:
    """Give the prefix of a role's shape fields in a sample: none for agg, else the role's name."""
    return "" if role == "agg" else f"{role}_"


def strategy_label(shape: ParallelShape) -> str:
    """Name a shape's strategy: tp, tep, dep, dtp, or mixed for what is never enumerated."""
    if shape.moe_tp == 1 and shape.moe_ep == 1:
        return "tp"
    if shape.moe_tp > 1 and shape.moe_ep > 1:
        return "mixed"
    experts = "ep" if shape.moe_ep > 1 else "tp"
    if shape.tp > 1 and shape.dp == 1:
        return "tep" if experts == "ep" else "tp"
    if shape.tp == 1 and shape.dp > 1:
        return "dep" if experts == "ep" else "dtp"
    return "mixed"


def describe_shape(shape: ParallelShape) -> str:
    """Name a shape for a user, e.g. `DEP8`; by its numbers where no label says it all."""
    label = strategy_label(shape)
    if label == "mixed" or shape.pp > 1 or (label == "tp" and shape.dp > 1):
        return f"tp{shape.tp}-dp{shape.dp}-moe_tp{shape.moe_tp}-moe_ep{shape.moe_ep}-pp{shape.pp}"
    return f"{label.upper()}{shape.gpus_per_worker}"


def describe_config(config: ParallelConfig) -> str:
    """Name a config for a user, e.g. `2xDEP8 + 6xDTP8` (prefill first)."""
    if isinstance(config, DisaggParallelConfig):
        return f"{describe_config(config.prefill)} + {describe_config(config.decode)}"
    return f"{config.replicas}x{describe_shape(config.shape)}"


def _moe_shapes(g: int, *, whole_experts_only: bool) -> list[ParallelShape]:
    """List the pure MoE patterns of g > 1 GPUs, tp ascending, then moe_tp ascending."""
    shapes = [
        ParallelShape(1, g, 1, g),
        ParallelShape(1, g, g, 1),
        ParallelShape(g, 1, 1, g),
        ParallelShape(g, 1, g, 1),
    ]
    return [shape for shape in shapes if shape.moe_tp == 1 or not whole_experts_only]


def _check_worker(backend: str, gpus_per_worker: int) -> None:
    if backend not in BACKENDS:
        allowed = ", ".join(BACKENDS)
        raise InputError(f"backend: {backend!r} is not one of {allowed}{nearest(backend, BACKENDS)}")
    if gpus_per_worker < 1:
        raise InputError(f"gpus_per_worker: {gpus_per_worker} must be at least 1")


def enumerate_worker_shapes(
    *,
    is_moe: bool,
    backend: str,
    gpus_per_worker: int,
    enable_wideep: bool = False,
    moe_backend: str | None = None,
    allow_moe_pure_tp: bool = True,
    include_single_gpu_moe: bool = False,
) -> list[ParallelShape]:
    """List the shapes of a worker of exactly `gpus_per_worker` GPUs (spec 05 section 4.1).

    A one-GPU MoE worker is listed only with `include_single_gpu_moe`. `enable_wideep` states a fact
    about the deployment and filters nothing. Raises InputError for an unknown backend or a size below 1.
    """
    _check_worker(backend, gpus_per_worker)
    if not is_moe:
        return [ParallelShape(gpus_per_worker, 1, 1, 1)]
    if gpus_per_worker == 1:
        return [ParallelShape(1, 1, 1, 1)] if include_single_gpu_moe else []
    ep_only = backend == "sglang" and moe_backend in _EXPERT_PARALLEL_ONLY
    return _moe_shapes(gpus_per_worker, whole_experts_only=ep_only or not allow_moe_pure_tp)


def enumerate_parallel_configs(
    *,
    is_moe: bool,
    backend: str,
    gpu_budget: int,
    min_gpu_budget: int | None = None,
    min_gpus_per_worker: int = 1,
    gpus_per_worker_candidates: Sequence[int] = DEFAULT_WORKER_SIZES_GPUS,
    enable_wideep: bool = False,
    moe_backend: str | None = None,
    allow_moe_pure_tp: bool = True,
    include_single_gpu_moe: bool = False,
) -> list[ReplicaParallelConfig]:
    """List every pool of equal workers of min_gpu_budget..gpu_budget GPUs (spec 05 section 4.2).

    Order: worker size, tp, moe_tp, replicas, all ascending.
    """
    configs: list[ReplicaParallelConfig] = []
    floor_gpus = min_gpu_budget or 1
    for size_gpus in sorted(set(gpus_per_worker_candidates)):
        if not min_gpus_per_worker <= size_gpus <= gpu_budget:
            continue
        counts = range(-(-floor_gpus // size_gpus), gpu_budget // size_gpus + 1)
        shapes = enumerate_worker_shapes(
            is_moe=is_moe,
            backend=backend,
            gpus_per_worker=size_gpus,
            enable_wideep=enable_wideep,
            moe_backend=moe_backend,
            allow_moe_pure_tp=allow_moe_pure_tp,
            include_single_gpu_moe=include_single_gpu_moe,
        )
        configs += [ReplicaParallelConfig(shape, count) for shape in shapes for count in counts]
    return configs


def enumerate_disagg_configs(
    *,
    is_moe: bool,
    backend: str,
    gpu_budget: int,
    min_gpu_budget: int | None = None,
    min_gpus_per_worker: int = 1,
    gpus_per_worker_candidates: Sequence[int] = DEFAULT_WORKER_SIZES_GPUS,
    enable_wideep: bool = False,
    moe_backend: str | None = None,
    allow_moe_pure_tp: bool = True,
    include_single_gpu_moe: bool = False,
) -> list[DisaggParallelConfig]:
    """List every prefill x decode pair whose sum is within min_gpu_budget..gpu_budget GPUs.

    The roles are independent of each other; order is prefill-major, each role in the order of
    `enumerate_parallel_configs` (spec 05 section 4.2). Raises InputError when there would be too many.
    """
    roles = enumerate_parallel_configs(
        is_moe=is_moe,
        backend=backend,
        gpu_budget=gpu_budget,
        min_gpus_per_worker=min_gpus_per_worker,
        gpus_per_worker_candidates=gpus_per_worker_candidates,
        enable_wideep=enable_wideep,
        moe_backend=moe_backend,
        allow_moe_pure_tp=allow_moe_pure_tp,
        include_single_gpu_moe=include_single_gpu_moe,
    )
    floor_gpus = min_gpu_budget or 1
    sized = [(role, role.total_gpus) for role in roles]
    _check_pairs([gpus for _, gpus in sized], gpu_budget)
    return [
        DisaggParallelConfig(prefill, decode)
        for prefill, prefill_gpus in sized
        for decode, decode_gpus in sized
        if floor_gpus <= prefill_gpus + decode_gpus <= gpu_budget
    ]


def _check_pairs(role_gpus: list[int], gpu_budget: int) -> None:
    """Refuse a budget before its pairs are listed: they grow with its square."""
    ordered = sorted(role_gpus)
    pairs = sum(bisect_right(ordered, gpu_budget - gpus) for gpus in ordered)
    if pairs > MAX_PAIRS:
        raise InputError(
            f"search_space.gpu_budget: {gpu_budget} GPUs allow {pairs} pairs of a prefill and a decode pool, "
            f"more than {MAX_PAIRS}; search a smaller budget, or deployment_mode [agg] only"
        )
