"""Replays with a KV-aware router, and choices forced on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from aisimulate.config.payload import parse_payload
from aisimulate.replay.build import BuiltReplay, build_replay
from aisimulate.replay.execute import run_built
from aisimulate.replay.report import build_report
from aisimulate.router.kv_router import KvRouter

Payload = dict[str, Any]


def payload(
    rows: list[dict[str, Any]],
    folder: Path,
    *,
    workers: int = 2,
    pools: Sequence[int] | None = None,
    rank: dict[str, Any] | None = None,
    launch: dict[str, Any] | None = None,
    block: int = 64,
    provider: str = "kv_router",
    **config: Any,
) -> Payload:
    """A replay of a trace, whose `rows` are written to `folder`."""
    trace = folder / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    topology: Payload = {"kind": "aggregated", "workers": {"initial_workers": workers}}
    if pools:
        prefill, decode = ({"initial_workers": count} for count in pools)
        topology = {"kind": "disaggregated", "prefill": prefill, "decode": decode}
    placement = {"provider": provider, "config": config or None}
    spec = {
        "topology": topology,
        "engine": {"rank": {"block_size": block} | (rank or {}), **(launch or {})},
        "adapters": {"placement": placement},
    }
    traffic = {"source_type": "trace", "trace_paths": [str(trace)], "trace_block_size": block}
    return {"spec": spec, "traffic": traffic}


class Forced:
    """Chooses what somebody else chose, and keeps what that cost and the least it could have cost."""

    def __init__(self, router: KvRouter, choices: Iterable[Sequence[int]]) -> None:
        self._places = router._places
        self._choices = iter(choices)
        self.log: list[tuple[float, float]] = []

    def pick(self, costs: Sequence[float], targets: Sequence[int], active_blocks: Sequence[float]) -> int:
        del active_blocks
        worker, rank = next(self._choices)
        index = [self._places[target] for target in targets].index((worker, rank))
        self.log.append((costs[index], min(costs)))
        return index


def routers(replay: BuiltReplay) -> dict[str, KvRouter]:
    """The routers of a replay, by pool."""
    placement: Any = replay.fleet._placement
    if isinstance(placement, KvRouter):
        return {"agg": placement}
    traffic: Any = replay.fleet._driver
    return {"prefill": traffic._router, "decode": traffic._decode}


def run_forced(
    asked: Payload, choices: dict[str, list[Sequence[int]]]
) -> tuple[dict[str, Any], dict[str, Forced]]:
    """Replay with the choices of each pool given in order; return the report too."""
    replay = build_replay(parse_payload(asked))
    forced = {}
    for pool, router in routers(replay).items():
        forced[pool] = Forced(router, choices.get(pool, ()))
        router._choice = forced[pool]
    return build_report(run_built(replay, 0), record_per_request=True), forced
