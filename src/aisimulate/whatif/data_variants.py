"""Half the bandwidth, other pass times, another precision, another KV capacity."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from aisimulate.config.aic import aic_config
from aisimulate.config.payload import parse_payload
from aisimulate.config.rank import DiskOffload, HostOffload
from aisimulate.core.errors import AISimulateError
from aisimulate.replay.capacity import aic_engine_key
from aisimulate.timing.aic.quant import resolve_modes
from aisimulate.whatif.payloads import get, put, rank_path
from aisimulate.whatif.variants import Variant, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

    from aisimulate.whatif.base import Base
    from aisimulate.whatif.payloads import Path, Payload

# From a tier as it is given to the bandwidths that it has where none are given.
_Defaults: TypeAlias = Callable[[dict[str, Any]], dict[str, float]]

_HALF = 0.5
_CAPACITY_SHARE = 0.1
_TIME_SHARE = 0.1
_ALIASES = {
    "gemm_dtype": "gemm_quant_mode",
    "moe_dtype": "moe_quant_mode",
    "kv_cache_dtype": "kvcache_quant_mode",
}
# What weights are changed to, and from which data type of theirs that is no change.
_WEIGHTS = {"bf16": ("bfloat16",), "fp8": ("fp8", "fp8_block", "fp8_static"), "nvfp4": ("nvfp4",)}
_KV = {"bf16": ("bfloat16",), "fp8": ("fp8",)}


def bandwidth(base: Base) -> Iterator[Variant]:
    """Half the bandwidth of hand-overs, of host memory and of the disk; each by itself."""
    yield _transfer(base)
    yield _halved(
        base, "slower-host", "half the host memory bandwidth", "native_host_offload", _host_defaults
    )
    yield _halved(base, "slower-disk", "half the disk bandwidth", "g3_offload", _disk_defaults)


def _transfer(base: Base) -> Variant:
    name, title = "slower-transfer", "half the hand-over bandwidth"
    if base.stages == ("agg",):
        return skipped(name, title, "one pool does it all: nothing is handed over")
    path = (*rank_path("prefill"), "kv_transfer_bandwidth")
    gbps = get(base.payload, path)
    if gbps and _transfer_bytes(base) is not None:
        return Variant(
            name, f"{title} ({gbps:g} to {gbps * _HALF:g} GB/s)", put(base.payload, path, gbps * _HALF)
        )
    latency_path = ("spec", "topology", "handoff_latency_ms")
    latency_ms = get(base.payload, latency_path)
    if latency_ms:
        doubled = put(base.payload, latency_path, latency_ms / _HALF)
        return Variant(name, f"hand-overs take twice as long ({latency_ms / _HALF:g} ms)", doubled)
    return skipped(name, title, "hand-overs take no time here: kv_transfer_bandwidth is not set")


def _transfer_bytes(base: Base) -> int | None:
    rank = get(base.payload, rank_path("prefill")) or {}
    value: int | None = rank.get("kv_transfer_bytes_per_token", rank.get("kv_bytes_per_token"))
    return value


def _host_defaults(tier: dict[str, Any]) -> dict[str, float]:
    return _default_bandwidths(HostOffload, tier)


def _disk_defaults(tier: dict[str, Any]) -> dict[str, float]:
    return _default_bandwidths(DiskOffload, tier)


def _default_bandwidths(kind: type[BaseModel], tier: dict[str, Any]) -> dict[str, float]:
    """List what acts on a tier of its scope."""
    found = {name: field.default for name, field in kind.model_fields.items()}
    is_shared = tier.get("scope") == "cluster_shared"
    return {
        name: gbps
        for name, gbps in found.items()
        if name.endswith("_bandwidth_gbps") and (is_shared or not name.startswith("shared_"))
    }


def _halved(base: Base, name: str, title: str, field: str, defaults: _Defaults) -> Variant:
    """Halve the bandwidths of a tier of every stage that has it; one of 0 is no bound, and stays."""
    payload, found = base.payload, False
    for stage in base.stages:
        path: Path = (*rank_path(stage), field)
        tier = get(payload, path)
        if tier is None:
            continue
        found = True
        rates = {key: tier.get(key, value) for key, value in defaults(tier).items()}
        payload = put(payload, path, {**tier, **{key: rate * _HALF for key, rate in rates.items()}})
    if not found:
        return skipped(name, title, f"no {field} in this deployment")
    if payload == base.payload or not _has_bound(payload, base.stages, field):
        return skipped(name, title, "its bandwidth is unlimited")
    return Variant(name, title, payload)


def _has_bound(payload: Payload, stages: tuple[str, ...], field: str) -> bool:
    tiers = [get(payload, (*rank_path(stage), field)) or {} for stage in stages]
    return any(tier.get(key) for tier in tiers for key in tier if key.endswith("bandwidth_gbps"))


def times(base: Base) -> Iterator[Variant]:
    """Every pass a tenth longer, and a tenth shorter; mixed ones timed the other way."""
    for word, sign, factor in (("slower", "+", 1.0 + _TIME_SHARE), ("faster", "-", 1.0 - _TIME_SHARE)):
        payload = base.payload
        for stage in base.stages:
            path = (*rank_path(stage), "speedup_ratio")
            ratio = get(payload, path) or 1.0  # 0 leaves times alone, as 1 does
            payload = put(payload, path, ratio / factor)
        yield Variant(f"{word}-passes", f"{sign}10% pass times", payload)
    yield _other_mixing(base)


def _other_mixing(base: Base) -> Variant:
    """Time a pass that prefills and decodes as one forward instead of two, or the other way round."""
    path = (*rank_path(base.stages[0]), "timing_mode")
    other = "additive" if get(base.payload, path) == "fused" else "fused"
    name, title = f"{other}-passes", f"mixed passes timed {other}"
    if base.stages != ("agg",):
        return skipped(name, title, "no worker of two pools mixes prefill and decode in a pass")
    if get(base.payload, (*rank_path("agg"), "backend")) == "sglang":
        return skipped(name, title, "sglang never mixes prefill and decode in a pass")
    return Variant(name, title, put(base.payload, path, other))


def precision(base: Base) -> Iterator[Variant]:
    """Other data types of the weights and of the KV cache. Which have data, their replays tell."""
    modes = _effective_modes(base)
    if isinstance(modes, str):
        yield skipped("precision", "another precision", modes)
        return
    for name, types in _WEIGHTS.items():
        if modes["gemm_dtype"] not in types:
            wanted = {"gemm_dtype": types[0]} | ({"moe_dtype": types[0]} if _has_experts(base) else {})
            title = f"weights in {types[0]} instead of {modes['gemm_dtype']}"
            yield Variant(f"weights-{name}", title, _with_types(base, wanted))
    for name, types in _KV.items():
        if modes["kv_cache_dtype"] not in types:
            title = f"KV cache in {types[0]} instead of {modes['kv_cache_dtype']}"
            yield Variant(f"kv-{name}", title, _with_types(base, {"kv_cache_dtype": types[0]}))


def _effective_modes(base: Base) -> dict[str, str] | str:
    """Give the data types in use, or why there are none to change."""
    spec = parse_payload(base.payload).spec
    stage = None if base.stages == ("agg",) else base.stages[0]
    rank = spec.engine.role(stage).rank
    aic = aic_config(rank, spec.engine.rank_path(stage))
    if aic is None:
        return f"pass times are those of timing_model {rank.timing_model.type}, which knows no data types"
    try:
        return resolve_modes(aic_engine_key(aic)).effective
    except AISimulateError as error:
        return str(error)


def _has_experts(base: Base) -> bool:
    path = (*rank_path(base.stages[0]), "timing_model", "config")
    config = get(base.payload, path) or {}
    return config.get("moe_tp_size") is not None or config.get("moe_ep_size") is not None


def _with_types(base: Base, types: dict[str, str]) -> Payload:
    payload = base.payload
    replaced = {_ALIASES[name] for name in types}
    for stage in base.stages:
        path = (*rank_path(stage), "timing_model", "config")
        given = get(payload, path) or {}
        kept = {name: value for name, value in given.items() if name not in replaced}
        payload = put(payload, path, {**kept, **types})
    return payload


def capacity(base: Base) -> Iterator[Variant]:
    """A tenth more and a tenth fewer KV blocks in every pool."""
    for word, sign, factor in (("more", "+", 1.0 + _CAPACITY_SHARE), ("less", "-", 1.0 - _CAPACITY_SHARE)):
        name, title = f"{word}-kv", f"{sign}10% KV capacity"
        if set(base.blocks) != set(base.stages):
            yield skipped(name, title, "the report does not tell the KV capacity")
            continue
        payload = base.payload
        for stage, blocks in base.blocks.items():
            payload = put(payload, (*rank_path(stage), "num_gpu_blocks"), max(1, round(blocks * factor)))
        yield Variant(name, title, payload)
