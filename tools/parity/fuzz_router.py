"""Hold our KV-aware router against the reference's on random replays.

    .venv/bin/python tools/parity/fuzz_router.py PEER BACKEND KIND COUNT [SEED]

PEER is the Python of an environment with ai-dynamo-runtime, KIND one of plain, lag, queue, dp, pair, mtp,
pair-mtp, pair-queue and state. The reference draws between equal costs, so its choices are forced on ours:
the cost of each must be the same to 1e-9, at temperature 0 no other may be lower, first tokens and ends must
come when they did.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from router_instances import KINDS, Instance, draw

_DECISION = re.compile(r'request_id="([\w-]+)" worker_id=(\d+).*? dp_rank=(\d+) logit=([-\d.e]+)')
_SECONDS = 60
_COMPARED = (
    "arrival_time_ms",
    "input_length",
    "requested_output_length",
    "first_token_ms",
    "terminal_time_ms",
)
Decision = tuple[str, int, int, float]

# The reference's side: run in its interpreter.


def replay_there(folder: Path) -> None:
    """Replay the instance in `folder` in this interpreter, and leave the records there."""
    from dynamo import _core  # noqa: PLC0415 - only there

    instance = json.loads((folder / "instance.json").read_text())
    engine, launch = instance["engine"], instance["launch"]
    options: dict[str, Any] = {
        "router_mode": "kv_router",
        "router_config": _core.KvRouterConfig(**instance["router"]),
        "capture_per_request": True,
        "capture_planner_details": False,
        "trace_block_size": instance["block"],
    }
    if instance["lag_ms"]:
        options["kv_event_lag_ms"] = instance["lag_ms"]
    if instance["pools"]:
        for role, count in zip(("prefill", "decode"), instance["pools"], strict=True):
            options[f"{role}_engine_args"] = {"engine": engine | {"worker_type": role}, **launch}
            options[f"num_{role}_workers"] = count
    else:
        options["extra_engine_args"] = {"engine": engine, **launch}
        options["num_workers"] = instance["workers"]
    report = _core.run_mocker_trace_replay([str(folder / "trace.jsonl")], **options)
    (folder / "records.json").write_text(json.dumps(report.per_request))


def ask(peer: str, instance: Instance, folder: Path) -> tuple[list[Instance], list[Decision]] | None:
    """Let the reference replay; its records and decisions, or None when it gives up."""
    (folder / "instance.json").write_text(json.dumps(instance))
    (folder / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in instance["rows"]))
    command = [peer, __file__, "--there", str(folder)]
    environment = {**os.environ, "DYN_LOG": "info"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    if not (folder / "records.json").is_file():
        return None
    log = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    found = _DECISION.findall(log)
    decisions = [(uuid, int(worker), int(rank), float(cost)) for uuid, worker, rank, cost in found]
    return json.loads((folder / "records.json").read_text()), decisions


# Our side.


class Forced:
    """Chooses what the reference chose, and keeps our cost of it, the lowest cost, and its cost."""

    def __init__(self, router: Any, decisions: list[Decision]) -> None:
        self._places = router._places
        self._decisions = iter(decisions)
        self.log: list[tuple[float, float, float]] = []

    def pick(self, costs: list[float], targets: list[int], active_blocks: list[float]) -> int:
        """Choose."""
        del active_blocks
        _, worker, rank, logit = next(self._decisions)
        index = [self._places[target] for target in targets].index((worker, rank))
        self.log.append((costs[index], min(costs), logit))
        return index


def replay_here(instance: Instance, folder: Path, decisions: list[Decision]) -> tuple[Any, list[Forced]]:
    """Replay with forced choices."""
    from aisimulate.config.payload import parse_payload  # noqa: PLC0415 - ours only
    from aisimulate.replay.build import build_replay  # noqa: PLC0415 - ours only

    replay: Any = build_replay(parse_payload(payload_of(instance, folder)))
    if instance["pools"]:
        traffic = replay.fleet._driver
        stages = split(decisions, instance["engine"]["backend"] == "sglang")
        routers = (traffic._router, traffic._decode)
    else:
        stages, routers = (decisions,), (replay.fleet._placement,)
    forced = []
    for router, mine in zip(routers, stages, strict=True):
        router._choice = Forced(router, mine)
        forced.append(router._choice)
    replay.fleet.run()
    return replay, forced


def payload_of(instance: Instance, folder: Path) -> Instance:
    """Translate an instance into a payload."""
    counts = instance["pools"] or [instance["workers"]]
    pools = [{"initial_workers": count} for count in counts]
    topology: Instance = {"kind": "aggregated", "workers": pools[0]}
    if instance["pools"]:
        topology = {"kind": "disaggregated", "prefill": pools[0], "decode": pools[1]}
    config = instance["router"] | ({"kv_event_lag_ms": instance["lag_ms"]} if instance["lag_ms"] else {})
    spec = {
        "topology": topology,
        "engine": {"rank": instance["engine"], **instance["launch"]},
        "adapters": {"placement": {"provider": "kv_router", "config": config}},
    }
    paths = [str(folder / "trace.jsonl")]
    return {
        "spec": spec,
        "traffic": {"source_type": "trace", "trace_paths": paths, "trace_block_size": instance["block"]},
    }


def split(decisions: list[Decision], decode_first: bool) -> tuple[list[Decision], list[Decision]]:
    """Tell the two placements of each request apart by their order."""
    stages: tuple[list[Decision], list[Decision]] = ([], [])
    seen: dict[str, int] = {}
    for decision in decisions:
        number = seen[decision[0]] = seen.get(decision[0], -1) + 1
        stages[number ^ decode_first].append(decision)
    return stages


def differences(
    instance: Instance, sequences: list[Any], forced: list[Forced], theirs: list[Instance]
) -> Iterator[str]:
    """Say what is not the same."""
    greedy = not instance["router"].get("router_temperature")
    for pool in forced:
        for number, (cost, least, logit) in enumerate(pool.log):
            if abs(cost - logit) > 1e-9:
                yield f"decision {number}: costs {cost} here, {logit} there"
                return
            if greedy and cost > least + 1e-9:
                yield f"decision {number}: costs {cost}, another {least}"
                return
    here = sorted(
        (s.arrival_ms, s.input_tokens, s.output_tokens, (s.first_token_ns or 0) / 1e6, s.terminal_ns / 1e6)
        for s in sequences
        if s.status
    )
    keys = (
        "arrival_time_ms",
        "input_length",
        "requested_output_length",
        "first_token_ms",
        "terminal_time_ms",
    )
    there = sorted(tuple(record[key] or 0 for key in keys) for record in theirs)
    if len(here) != len(there):
        yield f"{len(here)} requests ended here, {len(there)} there"
    for ours, other in zip(here, there, strict=False):
        if any(abs(a - b) > 2e-3 for a, b in zip(ours, other, strict=True)):
            yield f"{ours} here, {other} there"
            return


def main() -> int:
    """Run the replays asked for on the command line; 1 if any differs."""
    peer, backend, kind, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    if kind not in KINDS:
        raise SystemExit(f"{kind} is not one of {', '.join(KINDS)}")
    first = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    equal = differing = aborted = decided = 0
    for seed in range(first, first + count):
        with TemporaryDirectory() as name:
            folder, instance = Path(name), draw(Random(seed), backend, kind)
            answer = ask(peer, instance, folder)
            if answer is None:
                aborted += 1
                continue
            records, decisions = answer
            replay, forced = replay_here(instance, folder, decisions)
            found = list(differences(instance, replay.driver.sequences, forced, records))
            decided += sum(len(pool.log) for pool in forced)
        equal += not found
        differing += bool(found)
        for text in found:
            print(f"{kind} {backend} {seed}: {text}")
    counts = f"{equal} equal, {differing} differ, {aborted} ended early there"
    print(f"{kind} {backend}: {counts}; {decided} decisions")
    return int(differing > 0)


if __name__ == "__main__":
    if sys.argv[1] == "--there":
        replay_there(Path(sys.argv[2]))
    else:
        sys.exit(main())
