"""Branches: one search space per deployment mode, its pool of configs and its knobs (spec 05 section 5)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.spica.choices import HOST_TIER_WEIGHTS, ROUTER_WEIGHTS
from aisimulate.spica.config_space import LISTED_PINS
from aisimulate.spica.dropped_shapes import summarise_drops
from aisimulate.spica.finite_space import PLANNER_DETAIL_KNOBS, distinct_choices
from aisimulate.spica.kv_estimate import NoPerfDatabase, RoleKnobs, estimator_missing_reason
from aisimulate.spica.model_hw import NoTimingData, NoViableParallelConfig, gpus, parallel_configs_for
from aisimulate.spica.parallel_enum import ROLES, describe_config
from aisimulate.spica.pin_problems import pin_problem
from aisimulate.spica.pinned_configs import pinned_configs
from aisimulate.spica.planner import reads_details

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.replay.capabilities import Capabilities
    from aisimulate.spica.config import SearchSpace, SmartSearchConfig
    from aisimulate.spica.dropped_shapes import DroppedShape
    from aisimulate.spica.parallel_enum import ParallelConfig

_NO_PIN = "no pinned config is in its pool"


@dataclass(frozen=True)
class BranchSpace:
    """The search space of one deployment mode.

    `parallel_configs` is the union of the backends' pools in first-seen order; `knob_choices` lists each
    discrete knob's values, `float_ranges` the (min, max) of continuous ones. `notes` are one-line remarks
    for the user on what was left out, and why.
    """

    deployment_mode: str
    parallel_configs: tuple[ParallelConfig, ...]
    supported_backends: Mapping[ParallelConfig, frozenset[str]]
    knob_choices: Mapping[str, list[Any]]
    gpu_budget: int | None = None
    float_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def branch_knob_choices(search_space: SearchSpace, deployment_mode: str) -> dict[str, list[Any]]:
    """List the choices of the router, planner and engine knobs that can act in `deployment_mode`.

    Knobs that nothing listed would read are left out: router weights without kv_router, host and disk
    weights without host offload, sampling and sensitivity without a planner loop.
    """
    names = [*_router_knobs(search_space), *_planner_knobs(search_space)]
    for role in ROLES[deployment_mode]:
        names += [f"{role}_max_num_batched_tokens", f"{role}_max_num_seqs"]
    choices = {name: distinct_choices(name, getattr(search_space, name)) for name in names}
    listed = {name: getattr(search_space, f"{name}_choices") for name in LISTED_PINS}
    return choices | {name: list(values) for name, values in listed.items() if values}


def _router_knobs(search_space: SearchSpace) -> list[str]:
    if "kv_router" not in search_space.router_mode:
        return ["router_mode"]
    offload = search_space.num_g2_blocks > 0
    weights = [knob for knob in ROUTER_WEIGHTS if offload or knob not in HOST_TIER_WEIGHTS]
    return ["router_mode", *weights]


def _planner_knobs(search_space: SearchSpace) -> list[str]:
    scaling = any(reads_details(policy) for policy in search_space.planner_scaling_policy)
    return ["planner_scaling_policy", *(PLANNER_DETAIL_KNOBS if scaling else ())]


@dataclass
class _ModePools:
    """What enumeration found for one mode: each backend's pool, or the reason it has none."""

    pools: dict[str, list[ParallelConfig]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    no_data: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def refuse(self, backend: str, reason: str, *, no_data: bool = False) -> None:
        """Record why a backend is out."""
        self.refused[backend] = reason
        if no_data:
            self.no_data.add(backend)

    @property
    def only_lacks_data(self) -> bool:
        """Whether every refusal is for want of performance data."""
        return bool(self.refused) and self.no_data == set(self.refused)

    @property
    def reasons(self) -> str:
        """All refusals in one line."""
        return "; ".join(f"{backend}: {reason}" for backend, reason in self.refused.items())


def favourable_role_knobs(search_space: SearchSpace, deployment_mode: str) -> dict[str, RoleKnobs]:
    """Give each role the listed knobs that leave most room for KV: no candidate holds more."""
    return {
        role: RoleKnobs(
            max_num_tokens=min(getattr(search_space, f"{role}_max_num_batched_tokens")),
            memory_fraction=getattr(search_space, f"{role}_gpu_memory_utilization"),
            given_tokens=_given_tokens(search_space, role),
        )
        for role in ROLES[deployment_mode]
    }


def _given_tokens(search_space: SearchSpace, role: str) -> int | None:
    blocks: int | None = getattr(search_space, f"{role}_num_gpu_blocks")
    return None if blocks is None else blocks * int(getattr(search_space, f"{role}_block_size"))


def _not_simulated(
    space: SearchSpace, mode: str, backend: str, capabilities: Capabilities | None
) -> str | None:
    """Say what Replay refuses whatever the config; None if nothing, or if Replay is not asked."""
    if capabilities is None or mode != "disagg":
        return None
    if backend not in capabilities.disaggregated_backends:
        return f"Replay cannot simulate {backend} in disagg mode yet"
    if space.aic_nextn and not capabilities.disaggregated_speculation:
        return "Replay cannot simulate aic_nextn in disagg mode yet"
    return None


def _collect_pools(
    space: SearchSpace, mode: str, max_seq_len: int | None, capabilities: Capabilities | None
) -> _ModePools:
    """Ask for every backend's pool; one that cannot be simulated, has no data or no config is refused."""
    found = _ModePools()
    for backend in dict.fromkeys(space.backend):
        if reason := _not_simulated(space, mode, backend, capabilities):
            found.refuse(backend, reason)
            continue
        dropped: list[DroppedShape] = []
        try:
            found.pools[backend] = list(
                parallel_configs_for(
                    space.model_name,
                    space.hardware_sku,
                    gpu_budget=space.gpu_budget,
                    deployment_mode=mode,
                    backend=backend,
                    max_seq_len=max_seq_len,
                    min_gpu_budget=space.min_gpu_budget,
                    role_knobs=favourable_role_knobs(space, mode),
                    include_single_gpu_moe=space.include_single_gpu_moe,
                    allow_model_download=space.allow_model_download,
                    backend_version=space.backend_version.get(backend),
                    on_drop=dropped.append,
                )
            )
        except (NoPerfDatabase, NoViableParallelConfig) as error:
            found.refuse(backend, str(error), no_data=isinstance(error, (NoPerfDatabase, NoTimingData)))
        found.notes += [f"{mode}/{backend}: {note}" for note in summarise_drops(dropped)]
    return found


def _keep_pinned(found: _ModePools, pins: Sequence[ParallelConfig], space: SearchSpace) -> None:
    """Restrict every pool to the pinned configs; raise when a pin, or every backend, is left without."""
    for backend, pool in list(found.pools.items()):
        legal = set(pool)
        found.pools[backend] = [pin for pin in pins if pin in legal]
        if not found.pools[backend]:
            del found.pools[backend]
            found.refuse(backend, _NO_PIN)
    legal_somewhere = {pin for pool in found.pools.values() for pin in pool}
    offenders = [pin for pin in pins if pin not in legal_somewhere]
    if not offenders:
        return
    where = "search_space.parallel_configs"
    illegal = f"legal/KV-feasible for no configured backend: {_offences(found, offenders, space)}"
    if not found.pools:
        error = NoTimingData if found.only_lacks_data else NoViableParallelConfig
        raise error(f"{where}: no configured backend can run the pinned parallel_configs; {illegal}")
    raise NoViableParallelConfig(f"{where}: {illegal}")


def _offences(found: _ModePools, offenders: Sequence[ParallelConfig], space: SearchSpace) -> str:
    """List illegal pins, each with the rule it breaks, and what is known of those that break none."""
    problems = {pin: pin_problem(pin, space) for pin in offenders}
    listed = ", ".join(
        describe_config(pin) + f" ({problem})" * bool(problem) for pin, problem in problems.items()
    )
    if all(problems.values()):
        return listed
    # That a pool has no pin is what is being explained here.
    refused = [f"{backend}: {why}" for backend, why in found.refused.items() if why != _NO_PIN]
    return f"{listed} ({'; '.join([*refused, *found.notes]) or 'not in any pool'})"


def _skip_message(space: SearchSpace, mode: str, found: _ModePools) -> str:
    return (
        f"deployment_mode {mode!r} skipped: no backend has a viable parallel config within "
        f"{gpus(space.gpu_budget)} ({found.reasons})"
    )


def _load_dimension(
    config: SmartSearchConfig,
) -> tuple[dict[str, list[Any]], dict[str, tuple[float, float]]]:
    """Give the KV-load ratio as a pinned choice or as a continuous range, if it is set at all."""
    if config.workload.kv_load_ratio is None:
        return {}, {}
    bounds = config.workload.kv_load_ratio_range
    if bounds is None:
        return {"kv_load_ratio": [config.workload.kv_load_ratio]}, {}
    return {}, {"kv_load_ratio": bounds}


def _make_branch(config: SmartSearchConfig, mode: str, found: _ModePools) -> BranchSpace:
    supported: dict[ParallelConfig, set[str]] = {}
    for backend, pool in found.pools.items():
        for parallel_config in pool:
            supported.setdefault(parallel_config, set()).add(backend)
    load_choices, float_ranges = _load_dimension(config)
    knobs = branch_knob_choices(config.search_space, mode)
    refused = [f"{mode}/{backend} left out: {reason}" for backend, reason in found.refused.items()]
    return BranchSpace(
        deployment_mode=mode,
        parallel_configs=tuple(supported),
        supported_backends={key: frozenset(backends) for key, backends in supported.items()},
        knob_choices={**knobs, "backend": list(found.pools), **load_choices},
        gpu_budget=config.search_space.gpu_budget,
        float_ranges=float_ranges,
        notes=(*refused, *found.notes),
    )


def _require_estimator(config: SmartSearchConfig) -> None:
    """Refuse a KV-relative load, before any work, when capacities cannot be estimated."""
    reason = estimator_missing_reason()
    if reason and config.workload.kv_load_ratio is not None:
        raise InputError(f"workload.kv_load_ratio needs the KV-capacity estimator: {reason}")


def enumerate_branches(
    config: SmartSearchConfig, *, max_seq_len: int | None = None, capabilities: Capabilities | None = None
) -> list[BranchSpace]:
    """Build one branch per deployment mode, in listed order (spec 05 section 5).

    `max_seq_len` is the sequence length in tokens that one rank's KV must exceed; None stands for
    `search_space.context_length`, and that for the model's maximum. `capabilities` is what the replay that
    will measure can do; None asks nobody. A backend that cannot run a mode is left out and a mode that no
    backend can run is skipped with a warning, both with the reason.

    Raises:
        NoViableParallelConfig: no mode is left, or a pinned config is legal for no backend.
        InputError: unknown SKU or model, or a KV-relative load without a capacity estimator.
    """
    _require_estimator(config)
    space = config.search_space
    length = space.context_length if max_seq_len is None else max_seq_len
    branches: list[BranchSpace] = []
    skipped: dict[str, _ModePools] = {}
    for mode in dict.fromkeys(space.deployment_mode):
        found = _collect_pools(space, mode, length, capabilities)
        if space.parallel_configs:
            _keep_pinned(found, pinned_configs(space.parallel_configs, mode), space)
        if found.pools:
            branches.append(_make_branch(config, mode, found))
        else:
            skipped[mode] = found
            warnings.warn(_skip_message(space, mode, found), stacklevel=2)
    if not branches:
        raise _nothing_left(space, skipped)
    return branches


def _nothing_left(space: SearchSpace, skipped: Mapping[str, _ModePools]) -> NoViableParallelConfig:
    error = (
        NoTimingData if all(found.only_lacks_data for found in skipped.values()) else NoViableParallelConfig
    )
    detail = "; ".join(f"{mode} skipped ({found.reasons})" for mode, found in skipped.items())
    return error(
        f"no deployment_mode has a viable parallel config for {space.model_name} on {space.hardware_sku} "
        f"within {gpus(space.gpu_budget)}: {detail}"
    )
