"""More or less traffic, longer prompts and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.units import round_half_away
from aisimulate.whatif.payloads import TRAFFIC, get, put
from aisimulate.whatif.variants import Variant, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from aisimulate.whatif.base import Base
    from aisimulate.whatif.payloads import Path, Payload

_SHARE = 0.2
_LONGER = 1.25
_IN_FLIGHT: tuple[Path, ...] = (
    (*TRAFFIC, "agentic_lanes"),
    (*TRAFFIC, "replay_concurrency"),
    (*TRAFFIC, "concurrency"),
    ("spec", "max_in_flight"),
)


def traffic(base: Base) -> Iterator[Variant]:
    """A fifth more and a fifth less: of the requests in flight, or of the rate at which they arrive."""
    for word, sign, factor in (("more", "+", 1.0 + _SHARE), ("less", "-", 1.0 - _SHARE)):
        yield _traffic(base, f"{word}-traffic", f"{sign}20% traffic", factor)


def _traffic(base: Base, name: str, title: str, factor: float) -> Variant:
    cap_path = next((path for path in _IN_FLIGHT if get(base.payload, path) is not None), None)
    if cap_path is not None:
        cap = int(get(base.payload, cap_path))
        wanted = round_half_away(cap * factor)
        changed = max(cap + 1, wanted) if factor > 1 else min(cap - 1, wanted)
        if changed < 1:
            return skipped(name, title, "there is only one request in flight")
        payload = base.payload
        for path in _IN_FLIGHT:  # the cap may be given in both halves, and is then the same
            if get(payload, path) is not None:
                payload = put(payload, path, changed)
        return Variant(name, f"{title} ({cap} to {changed} in flight)", payload)
    faster = _faster(base.payload, base.traffic, factor)
    if faster is None:
        return skipped(name, title, "all requests arrive at once: there is no rate to change")
    return Variant(name, f"{title} (rate)", faster)


def _faster(payload: Payload, given: Mapping[str, Any], factor: float) -> Payload | None:
    """Let requests arrive `factor` times as fast; None where they have no rate."""
    if not given:
        requests = [
            {**request, "arrival_time_ms": request["arrival_time_ms"] / factor}
            for request in payload["spec"]["requests"]
        ]
        moves = any(request["arrival_time_ms"] > 0 for request in requests)
        return put(payload, ("spec", "requests"), requests) if moves else None
    if given["source_type"] == "trace":
        ratio = given.get("arrival_speedup_ratio") or 1.0
        return put(payload, (*TRAFFIC, "arrival_speedup_ratio"), ratio * factor)
    if given.get("request_rate") is not None:
        return put(payload, (*TRAFFIC, "request_rate"), given["request_rate"] * factor)
    if given.get("arrival_interval_ms") is not None:
        return put(payload, (*TRAFFIC, "arrival_interval_ms"), given["arrival_interval_ms"] / factor)
    return None


def lengths(base: Base) -> Iterator[Variant]:
    """Prompts and outputs a quarter longer."""
    for name, title, field in (
        ("longer-prompts", "prompts 25% longer", "isl"),
        ("longer-outputs", "outputs 25% longer", "osl"),
    ):
        tokens = base.traffic.get(field)
        if tokens is not None:
            longer = max(tokens + 1, round_half_away(tokens * _LONGER))
            payload = put(base.payload, (*TRAFFIC, field), longer)
            yield Variant(name, f"{title} ({tokens} to {longer} tokens)", payload)
        elif _has_token_ids(base.payload):
            yield skipped(name, title, "requests are given token by token")
        elif field == "isl":
            yield Variant(name, title, base.payload, prompts=_LONGER)
        else:
            yield Variant(name, title, base.payload, outputs=_LONGER)


def _has_token_ids(payload: Payload) -> bool:
    requests = payload["spec"].get("requests") or ()
    return any(request.get(f"{side}_token_ids") for request in requests for side in ("input", "output"))
