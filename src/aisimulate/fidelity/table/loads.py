"""A payload at another load than its own, and with other pass times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aisimulate.core.errors import InputError
from aisimulate.core.shown import show

REQUESTS_PER_SLOT, LEAST_REQUESTS = 10, 20
"""How many requests a replay at a concurrency has: means then hardly depend on how it begins and ends."""

_LOAD_FIELDS = (
    "load_type",
    "concurrency",
    "request_rate",
    "arrival_interval_ms",
    "num_request_ratio",
    "kv_load_ratio",
    "arrival_seed",
)
_SCALES = ("prefill_scale", "decode_scale")


def check_payload(payload: Mapping[str, Any]) -> None:
    """Refuse what a table cannot calibrate. Raises `InputError`."""
    spec = payload.get("spec", payload)
    if not isinstance(spec, Mapping):
        raise InputError(f"spec: {show(spec)} is not an object")
    if spec.get("calibration") is not None:
        raise InputError("spec.calibration: may not be given: it is what is to be made")
    _object(payload, "traffic", "traffic")
    if _object(spec, "topology", "spec.topology").get("kind") == "disaggregated":
        raise InputError("spec.topology: a pair of pools cannot be calibrated; measure one pool")
    rank = _object(_object(spec, "engine", "spec.engine"), "rank", "spec.engine.rank")
    for name in _SCALES:
        if rank.get(name, 1.0) != 1.0:
            raise InputError(f"spec.engine.rank.{name}: may not be given: it is what is to be found")


def _object(parent: Mapping[str, Any], name: str, path: str) -> Mapping[str, Any]:
    """Give an object within another, empty when it is missing; its fields are checked later, with a load."""
    value = parent.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{path}: {show(value)} is not an object")
    return value


def at_load(payload: Mapping[str, Any], by: str, load: float) -> dict[str, Any]:
    """Give the payload another load; its own is left out.

    A synthetic workload takes both kinds of load and, at a concurrency, as many requests as that needs. A
    trace and requests in the payload take a concurrency only. Raises `InputError`.
    """
    spec, traffic = payload.get("spec", payload), payload.get("traffic")
    if traffic is not None and str(traffic.get("source_type", "")).startswith("synthetic"):
        return {"spec": spec, "traffic": _synthetic(traffic, by, load)}
    if by == "rate_rps":
        raise InputError("traffic: rows with rate_rps need a synthetic workload, which can have any rate")
    if traffic is None:
        return {"spec": {**spec, "max_in_flight": int(load)}}
    return {"spec": spec, "traffic": {**traffic, "replay_concurrency": int(load)}}


def with_scale(payload: Mapping[str, Any], scale: float) -> dict[str, Any]:
    """Multiply all pass times of a payload of one pool."""
    spec = payload["spec"]
    engine = spec.get("engine") or {}
    rank = {**(engine.get("rank") or {}), **dict.fromkeys(_SCALES, scale)}
    return {**payload, "spec": {**spec, "engine": {**engine, "rank": rank}}}


def _synthetic(traffic: Mapping[str, Any], by: str, load: float) -> dict[str, Any]:
    kept = {name: value for name, value in traffic.items() if name not in _LOAD_FIELDS}
    if by == "rate_rps":
        kinds = ("poisson", "constant_rate")
        kind = traffic["load_type"] if traffic.get("load_type") in kinds else kinds[0]
        seed = {"arrival_seed": traffic["arrival_seed"]} if "arrival_seed" in traffic else {}
        return {**kept, "load_type": kind, "request_rate": load, **(seed if kind == "poisson" else {})}
    told = 1 if traffic["source_type"] == "synthetic" else traffic.get("turns_per_session")
    turns = max(1, told) if isinstance(told, int) else 1  # anything else is refused with the whole payload
    count = max(LEAST_REQUESTS, -(-REQUESTS_PER_SLOT * int(load) // turns))
    return {**kept, "load_type": "concurrency", "concurrency": int(load), "request_count": count}
