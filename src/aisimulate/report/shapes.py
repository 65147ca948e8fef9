"""Short texts for what a candidate deploys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.spica.parallel_enum import ROLES, shape_prefix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.spica.config import Candidate


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


def knobs_text(config: Mapping[str, Any]) -> str:
    """Give what else was chosen: batching per role, and router, policy and load when they say something."""
    batching = " | ".join(
        f"{config.get(f'{role}_max_num_batched_tokens')}/{config.get(f'{role}_max_num_seqs')}"
        for role in roles(config)
    )
    parts = [batching, str(config.get("backend"))]
    if config.get("router_mode") not in (None, "round_robin"):
        parts.append(_router_text(config))
    if config.get("enable_throughput_scaling") or config.get("enable_load_scaling"):
        parts.append(f"policy {config.get('planner_scaling_policy')}")
    if config.get("kv_load_ratio") is not None:
        parts.append(f"c={config['concurrency']}")
    return " ".join(parts)


def _router_text(config: Mapping[str, Any]) -> str:
    """Name the router and, of the KV-aware one, credit, load scale and temperature."""
    names = {
        "overlap_score_credit": "credit",
        "prefill_load_scale": "scale",
        "router_temperature": "temperature",
    }
    settings = [f"{short} {config[name]:g}" for name, short in names.items() if name in config]
    return " ".join([str(config["router_mode"]), ", ".join(settings)]).strip()


def candidate_text(candidate: Candidate) -> str:
    """Name a whole deployment: worker shapes, replicas, GPUs, and what else was chosen."""
    config = candidate.config
    workers = f"{shape_text(config)} x {replicas_text(config)}"
    return f"{workers} on {candidate.used_gpus} GPUs, {knobs_text(config)}"


def _worker(config: Mapping[str, Any], role: str) -> str:
    strategy = str(shape_field(config, role, "strategy")).upper()
    sizes = [int(shape_field(config, role, name) or 1) for name in ("tp", "pp", "attention_dp")]
    return f"{strategy}{sizes[0] * sizes[1] * sizes[2]}"
