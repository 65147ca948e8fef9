"""Short texts for what a candidate deploys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.spica.choices import ROUTER_WEIGHTS
from aisimulate.spica.deploy import scales
from aisimulate.spica.parallel_enum import ROLES, shape_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aisimulate.spica.config import Candidate

# Settings that `knobs_text` leaves out unless rows would look alike without them.
_TELLING = (
    *ROUTER_WEIGHTS,
    "max_num_fpm_samples",
    "fpm_sample_bucket_size",
    "load_scaling_down_sensitivity",
    "load_min_observations",
)


def roles(config: Mapping[str, Any]) -> tuple[str, ...]:
    """List the roles of an unrolled sample: agg, or prefill and decode."""
    return ROLES[config["deployment_mode"]]


def shape_field(config: Mapping[str, Any], role: str, name: str) -> Any:  # noqa: ANN401 - a sample value
    """Read a shape field of a role; samples write agg shapes without a prefix."""
    return config.get(shape_prefix(role) + name)


def shape_text(config: Mapping[str, Any]) -> str:
    """Name the worker shapes, for example `TP4` or `DEP8 | TEP4` (prefill | decode)."""
    return " | ".join(_worker(config, role) for role in roles(config))


def replicas_text(config: Mapping[str, Any]) -> str:
    """Give the number of workers per role."""
    return " | ".join(str(shape_field(config, role, "replicas")) for role in roles(config))


def workers_text(config: Mapping[str, Any]) -> str:
    """Name all workers: their shapes and how many there are."""
    return f"{shape_text(config)} x {replicas_text(config)}"


def knobs_text(config: Mapping[str, Any], telling: Sequence[str] = ()) -> str:
    """Give what else was chosen: batching per role, and router, policy and load when they say something.

    `telling`: fields whose values are added by name (`telling_fields`).
    """
    batching = " | ".join(
        f"{config.get(f'{role}_max_num_batched_tokens')}/{config.get(f'{role}_max_num_seqs')}"
        for role in roles(config)
    )
    parts = [batching, str(config.get("backend"))]
    if config.get("router_mode") not in (None, "round_robin"):
        parts.append(str(config["router_mode"]))
    if scales(config):
        parts.append(f"policy {config.get('planner_scaling_policy')}")
    if config.get("kv_load_ratio") is not None:
        parts.append(f"c={config['concurrency']}")
    parts += [f"{name}={config[name]}" for name in telling if config.get(name) is not None]
    return " ".join(parts)


def telling_fields(candidates: Iterable[Candidate]) -> tuple[str, ...]:
    """List the router and planner settings that alone tell deployments of the same text apart."""
    values: dict[tuple[str, ...], dict[str, set[str]]] = {}
    for candidate in candidates:
        config = candidate.config
        group = values.setdefault((shape_text(config), replicas_text(config), knobs_text(config)), {})
        for name in _TELLING:
            group.setdefault(name, set()).add(repr(config.get(name)))
    return tuple(name for name in _TELLING if any(len(group[name]) > 1 for group in values.values()))


def gpus_text(candidate: Candidate) -> str:
    """Give the GPUs; where a planner scales, those of the start and the average that was paid for."""
    average = candidate.metrics.get("avg_gpu")
    if average is None or not scales(candidate.config):
        return str(candidate.used_gpus)
    return f"{candidate.used_gpus}, avg {average:.1f}"


def candidate_text(candidate: Candidate, telling: Sequence[str] = ()) -> str:
    """Name a whole deployment: worker shapes, replicas, GPUs, and what else was chosen."""
    config = candidate.config
    return f"{workers_text(config)} on {gpus_text(candidate)} GPUs, {knobs_text(config, telling)}"


def _worker(config: Mapping[str, Any], role: str) -> str:
    strategy = str(shape_field(config, role, "strategy")).upper()
    sizes = [int(shape_field(config, role, name) or 1) for name in ("tp", "pp", "attention_dp")]
    return f"{strategy}{sizes[0] * sizes[1] * sizes[2]}"
