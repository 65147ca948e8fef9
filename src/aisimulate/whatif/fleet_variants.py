"""More or fewer workers, and a worker that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.whatif.payloads import get, pool_path, put, rank_path
from aisimulate.whatif.variants import Variant, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.whatif.base import Base

_NOUNS = {"agg": "worker", "prefill": "prefill worker", "decode": "decode worker"}
_SCALED = "something else decides how many workers there are (adapters.scaling)"


def replicas(base: Base) -> Iterator[Variant]:
    """One worker more and one fewer, of each pool."""
    for stage in base.stages:
        count, noun = base.workers(stage), _NOUNS[stage]
        for word, change in (("more", 1), ("fewer", -1)):
            name = f"{word}-{'replicas' if stage == 'agg' else stage}"
            title = f"one {noun} {'more' if change > 0 else 'fewer'} ({count + change})"
            if base.scales:
                yield skipped(name, f"one {noun} {word}", _SCALED)
            elif count + change < 1:
                yield skipped(name, f"one {noun} {word}", f"there is only one {noun}")
            else:
                path = (*pool_path(stage), "initial_workers")
                yield Variant(name, title, put(base.payload, path, count + change))


def failure(base: Base) -> Iterator[Variant]:
    """A worker that is not there for the middle third of the replay.

    What it serves then starts again elsewhere, from the prompt. Where that is not simulated, beside a router
    and in pairs of pools, it ends what it has.
    """
    for stage in base.stages:
        count, noun = base.workers(stage), _NOUNS[stage]
        name = "failed-worker" if stage == "agg" else f"failed-{stage}"
        what = "its requests start again" if _may_lose(base, stage) else "it ends what it has"
        title = f"one {noun} out for the middle third, {what}"
        third_ms = float(base.report.get("duration_ms", 0.0)) / 3.0
        if base.scales:
            yield skipped(name, title, _SCALED)
        elif count < 2:
            yield skipped(name, title, f"there is only one {noun}: nothing would be served")
        elif third_ms < 0.001:
            yield skipped(name, title, "the replay takes no time")
        else:
            yield _without_one(base, stage, name, title, third_ms)


def _may_lose(base: Base, stage: str) -> bool:
    """Whether requests may be taken from a worker: nobody else knows where they are."""
    placement = get(base.payload, ("spec", "adapters", "placement", "provider"))
    host = get(base.payload, (*rank_path(stage), "native_host_offload"))
    return stage == "agg" and placement in (None, "round_robin") and host is None


def _without_one(base: Base, stage: str, name: str, title: str, third_ms: float) -> Variant:
    target = "target_prefill" if stage == "prefill" else "target_decode"
    count = base.workers(stage)
    abrupt = {"abrupt": True} if _may_lose(base, stage) else {}
    script = {
        "first_tick_ms": third_ms,
        "step_ms": third_ms,
        "decisions": [{target: count - 1, **abrupt}, {target: count}],
    }
    adapters = get(base.payload, ("spec", "adapters")) or {}
    scaling = {"provider": "scripted", "config": script}
    payload = put(base.payload, ("spec", "adapters"), {**adapters, "scaling": scaling})
    return Variant(name, title, payload, keeps_gpus=True)
