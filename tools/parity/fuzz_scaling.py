"""Random replays whose pools scale by a script, through two interpreters: ours, and the reference's.

fuzz_scaling.py gen KIND NUMBER SEED INSTANCES.jsonl     KIND: a backend, then -pair, -mtp, -crowded, -state
PYTHON fuzz_scaling.py run INSTANCES.jsonl RESULTS.jsonl
fuzz_scaling.py diff OURS.jsonl THEIRS.jsonl             every token at 1 ns, and what the policy sees

An interpreter has `aisimulate` (ours) or `dynamo._core` (ai-dynamo-runtime).
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from fuzz_pair import Runner

BLOCK = 4  # of the traces
FIXED = {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0}
SHOWN_DIFFERENCES = 8
COLUMNS = (
    "arrival_time_ms",
    "first_token_ms",
    "last_token_ms",
    "terminal_time_ms",
    "prefill_worker_idx",
    "decode_worker_idx",
    "terminal_status",
    "input_length",
    "output_length",
)
OURS_ONLY = {"offered_input_tokens", "offered_output_tokens"}
Instance = dict[str, Any]


# Instances ------------------------------------------------------------------------------------------------


def instance(seed: int, kind: str) -> Instance:
    """Build the instance of a seed."""
    backend, *features = kind.split("-")
    pair = "pair" in features
    draw = random.Random(f"scaling/{kind}/{seed}")
    rank = _rank(draw, backend)
    if "mtp" in features:
        rank["aic_nextn"] = draw.choice([1, 2, 3])
        rank["aic_nextn_accept_rates"] = draw.choice(["1", "1,0", "0", "1,1,1"])
    if "state" in features:
        rank["kv_cache_bytes_per_token"] = 100
        rank["state_cache"] = {"bytes_per_request": 100 * rank["block_size"] * draw.choice([1, 2, 3])}
    if pair:
        rank["kv_transfer_bytes_per_token"] = 1_000_000
        rank["kv_transfer_bandwidth"] = draw.choice([0.0, 1.0, 4.0])
    decisions = [
        {
            "target_prefill": draw.choice([None, 1, 2, 3]) if pair else None,
            "target_decode": draw.choice([None, 1, 2, 3, 4]),
        }
        for _ in range(draw.randint(1, 8))
    ]
    item: Instance = {
        "seed": seed,
        "is_pair": pair,
        "rank": rank,
        "rows": _rows(draw),
        "workers": [draw.randint(1, 2), draw.randint(1, 2)],
        "startup_ms": draw.choice([0.0, 0.0, 12.0, 25.0]),
        "first_tick_ms": draw.choice([3.0, 10.0, 14.5]),
        "step_ms": draw.choice([7.0, 20.0, 33.0]),
        "decisions": decisions,
    }
    if "crowded" in features:
        _crowd(draw, rank, item["rows"])
    return item


def _rank(draw: random.Random, backend: str) -> dict[str, Any]:
    size = draw.choice([1, 2, 4]) if backend == "sglang" else 4
    rank: dict[str, Any] = {
        "backend": backend,
        "block_size": size,
        "num_gpu_blocks": draw.choice([64, 96]) * 4 // size,
        "max_num_seqs": draw.choice([2, 3, 8]),
        "max_num_batched_tokens": draw.choice([16, 64]),
        "enable_prefix_caching": draw.random() < 0.8,
        "timing_model": draw.choice([FIXED, {"type": "polynomial"}]),
    }
    if backend == "sglang":
        rank["prefill_decode_interval"] = draw.choice([0, 0, 1])
        rank["sglang"] = {
            "chunked_prefill_size": draw.choice([8, 16, 64]),
            "schedule_policy": draw.choice(["fifo", "lpm"]),
            "schedule_conservativeness": draw.choice([0.1, 0.3]),
        }
    return rank


def _crowd(draw: random.Random, rank: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Leave so little room that requests give way to each other."""
    rank["num_gpu_blocks"] = draw.choice([13, 16, 20, 24]) * 4 // rank["block_size"]
    rank["max_num_seqs"] = draw.choice([3, 8])
    rank["timing_model"] = draw.choice([FIXED, FIXED | {"prefill_ms": 2.0}, {"type": "polynomial"}])
    if rank["backend"] == "vllm":
        rank["preemption_mode"] = draw.choice(["lifo", "fifo"])
    for row in rows:
        row["input_length"] = min(row["input_length"], draw.choice([8, 20, 30]))
        row["hash_ids"] = row["hash_ids"][: -(-row["input_length"] // BLOCK)]


def _rows(draw: random.Random) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    now_ms = 0.0
    for number in range(draw.randint(4, 20)):
        length = draw.randint(1, 40)
        blocks = -(-length // BLOCK)
        shared, family = draw.randint(0, blocks), 100 * draw.randint(0, 2)
        ids = [
            *range(family, family + shared),
            *range(1000 * (number + 5) + shared, 1000 * (number + 5) + blocks),
        ]
        output = draw.choice([0, 1, 2, 5, 9, 13])
        rows.append({"timestamp": now_ms, "input_length": length, "output_length": output, "hash_ids": ids})
        now_ms += draw.choice([0, 0, 1.5, 5, 12, 40])
    return rows


# Run ------------------------------------------------------------------------------------------------------


class Script:
    """A policy that follows a script and keeps what it is shown."""

    def __init__(self, item: Instance) -> None:
        self._first_ms, self._step_ms, self._decisions = (
            item["first_tick_ms"],
            item["step_ms"],
            item["decisions"],
        )
        self.snapshots: list[Any] = []

    def initial_tick_ms(self) -> float:
        """When to decide first."""
        return float(self._first_ms)

    def on_tick(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        """Give the next decision of the script."""
        number = len(self.snapshots)
        self.snapshots.append(json.loads(json.dumps(snapshot)))
        nothing = {"target_prefill": None, "target_decode": None}
        decision = self._decisions[number] if number < len(self._decisions) else nothing
        last = number + 1 >= len(self._decisions)
        return {**decision, "next_tick_ms": None if last else snapshot["now_ms"] + self._step_ms}


def replay(item: Instance, trace: Path) -> dict[str, Any]:
    """Run an instance; returns its records and what the policy saw, or the error."""
    trace.write_text("".join(json.dumps(row) + "\n" for row in item["rows"]))
    script = Script(item)
    here = importlib.util.find_spec("aisimulate") is not None
    try:
        records = (_run_here if here else _run_there)(item, str(trace), script)
    except BaseException as error:  # a panic of the reference is not an Exception
        return {"seed": item["seed"], "error": f"{type(error).__name__}: {error}"[:300]}
    rows = [[record[name] for name in COLUMNS] for record in records]
    return {"seed": item["seed"], "records": rows, "snapshots": script.snapshots}


def payload_of(item: Instance, trace: str) -> dict[str, Any]:
    """The payload of an instance, without its script."""
    pools = [{"initial_workers": count, "startup_delay_ms": item["startup_ms"]} for count in item["workers"]]
    role = {"rank": item["rank"]}
    topology: dict[str, Any] = {"kind": "aggregated", "workers": pools[1]}
    engine: dict[str, Any] = role
    if item["is_pair"]:
        topology = {"kind": "disaggregated", "prefill": pools[0], "decode": pools[1]}
        engine = {"prefill": role, "decode": role}
    traffic = {"source_type": "trace", "trace_paths": [trace], "trace_block_size": BLOCK}
    return {"spec": {"version": 1, "topology": topology, "engine": engine}, "traffic": traffic}


def _run_here(item: Instance, trace: str, script: Script) -> list[Any]:
    execute = importlib.import_module("aisimulate.replay.execute").execute
    return list(execute(payload_of(item, trace), scaling=script)["per_request"])


def _run_there(item: Instance, trace: str, script: Script) -> list[Any]:
    core = importlib.import_module("dynamo._core")
    startup = {"startup_time": item["startup_ms"] / 1000} if item["startup_ms"] else {}

    def engine(stage: str) -> Any:
        return core._normalize_mocker_config({"engine": {**item["rank"], "worker_type": stage}, **startup})

    fleet = {"extra_engine_args": engine("aggregated"), "num_workers": item["workers"][1]}
    if item["is_pair"]:
        fleet = {f"{stage}_engine_args": engine(stage) for stage in ("prefill", "decode")}
        fleet |= {"num_prefill_workers": item["workers"][0], "num_decode_workers": item["workers"][1]}
    result = core.run_mocker_trace_replay(
        [trace], trace_block_size=BLOCK, capture_per_request=True, scaling_policy=script, **fleet
    )
    return list(result.per_request)


def serve(tasks: Any, answers: Any) -> None:
    """Answer tasks until killed, in a process of its own."""
    importlib.import_module(
        "aisimulate.replay.execute" if importlib.util.find_spec("aisimulate") else "dynamo._core"
    )
    answers.put(None)
    with tempfile.TemporaryDirectory() as folder:
        while True:
            answers.put(replay(tasks.get(), Path(folder) / "trace.jsonl"))


# Compare --------------------------------------------------------------------------------------------------


def compare(ours: str, theirs: str) -> int:
    """Print the differences and a summary; 1 if there are any."""
    verdicts: Counter[str] = Counter()
    for here, there in zip(_lines(ours), _lines(theirs), strict=True):
        verdict = _verdict(here, there)
        verdicts[verdict] += 1
        fine = verdicts["equal"] + verdicts["failed there"]
        if verdict not in ("equal", "failed there") and verdicts.total() - fine <= SHOWN_DIFFERENCES:
            print(f"seed {here['seed']}: {verdict}")
    print(f"{verdicts['equal']}/{verdicts.total()} equal, {verdicts['failed there']} failed there")
    return int(verdicts["equal"] + verdicts["failed there"] != verdicts.total())


def _verdict(here: dict[str, Any], there: dict[str, Any]) -> str:
    if "error" in there:
        return "failed there"
    if "error" in here:
        return f"failed here: {here['error']}"
    if Counter(map(_outcome, here["records"])) != Counter(map(_outcome, there["records"])):
        return "other requests"
    for mine, other in zip(here["snapshots"], there["snapshots"], strict=True):
        if not _same(mine, other):
            return f"other snapshot at {other['now_ms']} ms"
    return "equal"


def _outcome(record: list[Any]) -> tuple[Any, ...]:
    return tuple(round(value * 1e6) if isinstance(value, float) else value for value in record)


def _same(mine: Any, other: Any) -> bool:
    """Whether two snapshots say the same; the reference adds up floating-point numbers in another order."""
    if isinstance(other, dict):
        keys = mine.keys() - OURS_ONLY
        return keys == other.keys() and all(_same(mine[key], other[key]) for key in keys)
    if isinstance(other, list):
        return len(mine) == len(other) and all(map(_same, mine, other))
    if isinstance(other, float | int) and isinstance(mine, float | int):
        return math.isclose(mine, other, rel_tol=1e-9, abs_tol=1e-6)
    return bool(mine == other)


def _lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def main() -> int:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("command", choices=("gen", "run", "diff"))
    parser.add_argument("arguments", nargs="+")
    parser.add_argument("--limit", type=float, default=3.0, help="seconds per instance")
    args = parser.parse_args()
    if args.command == "gen":
        kind, number, seed, path = args.arguments
        seeds = range(int(seed), int(seed) + int(number))
        Path(path).write_text("".join(json.dumps(instance(n, kind)) + "\n" for n in seeds))
        return 0
    first, second = args.arguments
    if args.command == "diff":
        return compare(first, second)
    runner = Runner(args.limit, serve)
    with Path(second).open("w") as results:
        for item in _lines(first):
            results.write(json.dumps(runner.result(item)) + "\n")
    runner.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
