"""What this version can simulate. Spica reads the same declaration, so nothing is priced by wrong rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.config.kv_router import PROVIDER as KV_ROUTER
from aisimulate.config.messages import quoted, show
from aisimulate.core.errors import InputError, UnsupportedError, nearest
from aisimulate.replay.look_ahead_rules import require_look_ahead
from aisimulate.replay.placement_policies import policy_names
from aisimulate.replay.tier_rules import require_scalable_tiers, require_tiers
from aisimulate.workload.formats import TRACE_FORMATS

if TYPE_CHECKING:
    from aisimulate.config.rank import RankConfig
    from aisimulate.config.spec import ReplaySpec
    from aisimulate.config.traffic import RuntimeTraffic


@dataclass(frozen=True, slots=True)
class Capabilities:
    """A set of choices that Replay simulates, by the names of the payload.

    `tiers`: KV cache tiers behind the GPU (`native_host_offload`, `g3_offload`), and `state_cache`.
    `speculation`: draft tokens (`aic_nextn`). `prefill_intervals`: prefills in some passes only
    (`prefill_schedule_interval`). `decode_intervals`: passes between prefills (`prefill_decode_interval`).
    `kv_events`: emission of cache events. `disaggregated_backends`: those of prefill and decode pools;
    `disaggregated_speculation`: draft tokens there; `routed_speculation`: behind a `kv_router`;
    `scaled_speculation`: where pools scale. `scaled_pair_backends`: those of pairs of pools that scale.
    """

    backends: frozenset[str]
    topologies: frozenset[str]
    placements: frozenset[str]
    scalings: frozenset[str]
    trace_formats: frozenset[str]
    tiers: frozenset[str] = frozenset()
    speculation: bool = False
    prefill_intervals: bool = False
    decode_intervals: bool = False
    kv_events: bool = False
    disaggregated_backends: frozenset[str] = frozenset()
    disaggregated_speculation: bool = False
    routed_speculation: bool = False
    scaled_speculation: bool = False
    scaled_pair_backends: frozenset[str] = frozenset()


CURRENT = Capabilities(
    backends=frozenset({"sglang", "trtllm", "vllm"}),
    topologies=frozenset({"aggregated", "disaggregated"}),
    placements=frozenset({"kv_router", "round_robin"}),
    scalings=frozenset({"none", "planner", "scripted"}),
    trace_formats=frozenset(TRACE_FORMATS),
    speculation=True,
    prefill_intervals=True,
    decode_intervals=True,
    tiers=frozenset({"g3_offload", "native_host_offload", "state_cache"}),
    disaggregated_backends=frozenset({"sglang", "trtllm", "vllm"}),
    disaggregated_speculation=True,
    scaled_speculation=True,
    scaled_pair_backends=frozenset({"sglang", "trtllm", "vllm"}),
    routed_speculation=True,
)
"""What this version simulates."""


def require_supported(
    spec: ReplaySpec, traffic: RuntimeTraffic | None = None, capabilities: Capabilities = CURRENT
) -> None:
    """Refuse what cannot be simulated.

    Raises `UnsupportedError` (path, choice, supported choices) for a choice that a later version brings,
    `InputError` for a provider nobody knows or settings that a provider does not take.
    """
    _require("spec.topology.kind", "topology", spec.topology.kind, capabilities.topologies)
    _require_placement(spec, capabilities.placements)
    _require_routable(spec, capabilities)
    _require_scaling(spec, capabilities.scalings)
    require_tiers(spec)
    require_look_ahead(spec)
    from aisimulate.replay.frontend import frontend_of  # noqa: PLC0415 - brings engines that a search does not need

    frontend_of(spec)
    for path, rank in _ranks(spec):
        _require(f"{path}.backend", "backend", rank.backend, capabilities.backends)
        _require_rank_features(path, rank, capabilities)
        if spec.topology.kind == "disaggregated":
            _require_stage(path, rank, capabilities)
    if traffic is not None and traffic.source_type == "trace":
        _require("traffic.trace_format", "trace format", traffic.format, capabilities.trace_formats)


def _require_stage(path: str, rank: RankConfig, capabilities: Capabilities) -> None:
    """Refuse what only aggregated workers do so far."""
    backends = capabilities.disaggregated_backends
    _require(f"{path}.backend", "disaggregated backend", rank.backend, backends)
    if rank.aic_nextn is not None and not capabilities.disaggregated_speculation:
        problem = f"{show(rank.aic_nextn)} is not supported yet in a disaggregated topology"
        raise UnsupportedError(f"{path}.aic_nextn: {problem} (supported: null)")
    if rank.state_cache is not None:
        problem = "a value is not supported in a disaggregated topology (supported there: null)"
        raise UnsupportedError(f"{path}.state_cache: {problem}")


def _require(path: str, what: str, choice: str, supported: frozenset[str]) -> None:
    if choice not in supported:
        names = ", ".join(sorted(supported))
        raise UnsupportedError(f"{path}: {what} {choice!r} is not supported yet (supported: {names})")


def _require_placement(spec: ReplaySpec, supported: frozenset[str]) -> None:
    path, adapter = "spec.adapters.placement", spec.adapters.placement
    if adapter.provider in ("round_robin", KV_ROUTER):
        _require(f"{path}.provider", "placement", adapter.provider, supported)
    elif adapter.provider not in policy_names():
        got = quoted(adapter.provider) + nearest(
            adapter.provider, [KV_ROUTER, "round_robin", *policy_names()]
        )
        raise InputError(
            f"{path}.provider: engine composition requires round_robin or kv_router placement, got {got}"
        )
    if adapter.provider == "round_robin" and adapter.config not in (None, {}):
        raise InputError(f"{path}.config: {show(adapter.config)} has no effect: round_robin has no settings")


def _require_routable(spec: ReplaySpec, capabilities: Capabilities) -> None:
    """Refuse what a KV-aware router cannot be put in front of yet."""
    provider = spec.adapters.placement.provider
    if provider == "round_robin":
        return
    for path, rank in _ranks(spec):
        if rank.aic_nextn and not capabilities.routed_speculation:
            problem = f"{show(rank.aic_nextn)} is not supported yet with {provider} (supported: null)"
            raise UnsupportedError(f"{path}.aic_nextn: {problem}")


def _require_scaling(spec: ReplaySpec, supported: frozenset[str]) -> None:
    path, adapter = "spec.adapters.scaling", spec.adapters.scaling
    if adapter.provider not in supported:
        got = quoted(adapter.provider)
        raise InputError(f"{path}.provider: engine composition does not provide scaling, got {got}")
    if adapter.provider == "none" and adapter.config not in (None, {}):
        raise InputError(f"{path}.config: {show(adapter.config)} has no effect without scaling")


def require_scalable(spec: ReplaySpec, capabilities: Capabilities = CURRENT) -> None:
    """Refuse to scale workers whose passes the reference describes to its planner in ways not known here."""
    for path, rank in _ranks(spec):
        if rank.aic_nextn and not capabilities.scaled_speculation:
            problem = f"{show(rank.aic_nextn)} is not supported yet where pools scale (supported: null)"
            raise UnsupportedError(f"{path}.aic_nextn: {problem}")
        if spec.topology.kind == "disaggregated":
            backends = capabilities.scaled_pair_backends
            _require(f"{path}.backend", "backend of pairs of pools that scale", rank.backend, backends)
    require_scalable_tiers(spec)


def _ranks(spec: ReplaySpec) -> Iterator[tuple[str, RankConfig]]:
    for stage in spec.stages:
        yield spec.engine.rank_path(stage), spec.engine.role(stage).rank


_WHY_NOT = {
    "emit_kv_events": "would change nothing: a replay writes no cache events",
}
_RANK_FEATURES: tuple[tuple[str, object, Callable[[Capabilities], bool]], ...] = (
    ("aic_nextn", None, lambda capabilities: capabilities.speculation),
    ("prefill_schedule_interval", 1, lambda capabilities: capabilities.prefill_intervals),
    ("prefill_decode_interval", 0, lambda capabilities: capabilities.decode_intervals),
    ("emit_kv_events", False, lambda capabilities: capabilities.kv_events),
    ("native_host_offload", None, lambda capabilities: "native_host_offload" in capabilities.tiers),
    ("g3_offload", None, lambda capabilities: "g3_offload" in capabilities.tiers),
    ("state_cache", None, lambda capabilities: "state_cache" in capabilities.tiers),
)


def _require_rank_features(path: str, rank: RankConfig, capabilities: Capabilities) -> None:
    for name, off, supports in _RANK_FEATURES:
        value = getattr(rank, name)
        if value != off and not supports(capabilities):
            shown = show(value) if isinstance(value, bool | int) else "a value"
            problem = _WHY_NOT.get(name, "is not supported yet")
            raise UnsupportedError(f"{path}.{name}: {shown} {problem} (supported: {show(off)})")
