"""How far the data behind a candidate can be trusted, told from its configuration alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import AISimulateError
from aisimulate.spica.kv_estimate import estimator_missing_reason, shape_engine_key
from aisimulate.spica.parallel_enum import ROLES, ParallelShape, shape_prefix
from aisimulate.timing.aic.health import GRADES, Confidence, engine_confidence, reaches

if TYPE_CHECKING:
    from collections.abc import Mapping


def config_confidence(config: Mapping[str, Any]) -> Confidence | None:
    """Judge the engines of a candidate's configuration, as new or as recorded.

    None where it names no engine that AI Configurator knows: another evaluator has its own data.
    """
    if estimator_missing_reason():
        return None
    found = Confidence()
    try:
        for role in ROLES[config["deployment_mode"]]:
            found |= _role_confidence(config, role)
    except (AISimulateError, KeyError, TypeError):
        return None
    return found


def kept_share(config: Mapping[str, Any], penalty: float) -> float:
    """Give what is left of a candidate's worth when each grade below `high` costs a share of `penalty`.

    All of it where nothing is known of its data.
    """
    confidence = config_confidence(config)
    below = 0 if confidence is None else len(GRADES) - 1 - GRADES.index(confidence.grade)
    return float((1.0 - penalty) ** below)


def too_low(config: Mapping[str, Any], least: str) -> str | None:
    """Say why a candidate's data do not reach the grade `least`; None when they do, or are unknown."""
    confidence = config_confidence(config)
    if confidence is None or reaches(confidence.grade, least):
        return None
    return f"confidence {confidence.grade}: {confidence.reasons[0]}"


def _role_confidence(config: Mapping[str, Any], role: str) -> Confidence:
    prefix = shape_prefix(role)
    sizes = {name: config[prefix + name] for name in ("tp", "pp", "moe_tp", "moe_ep")}
    key = shape_engine_key(
        ParallelShape(dp=config[f"{prefix}attention_dp"], **sizes),
        model_name=config["model_name"],
        hardware_sku=config["hardware_sku"],
        backend=config["backend"],
        backend_version=config["backend_version"],
        allow_model_download=bool(config.get("allow_model_download")),
    )
    return engine_confidence(key, _most_tokens(config, role), config.get("context_length") or 0)


def _most_tokens(config: Mapping[str, Any], role: str) -> int:
    """The most tokens of one forward of a rank; a decode worker computes those of its sequences only."""
    if role == "decode":
        return int(config["decode_max_num_seqs"]) * (1 + (config.get("aic_nextn") or 0))
    return int(config[f"{role}_max_num_batched_tokens"])
