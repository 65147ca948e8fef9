"""Random replays through two interpreters: ours, and the reference's.

fuzz_pair.py gen BACKEND NUMBER SEED INSTANCES.jsonl      instances of the seeds SEED .. SEED + NUMBER - 1
                                                          (--topology disaggregated: prefill and decode pools)
PYTHON fuzz_pair.py run INSTANCES.jsonl RESULTS.jsonl     each in a child process, --limit seconds at most
fuzz_pair.py diff OURS.jsonl THEIRS.jsonl                 every admission, token and status, at 1 ns

An interpreter has `aisimulate._runtime` (ours, the stand-alone wheel) or `dynamo._core` (ai-dynamo-runtime);
only the standard library is used besides, so that any of them can run it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import multiprocessing
import queue
import sys
import tempfile
from collections import Counter
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from content_order import ContentOrder, follow
from instances import TRACE, instance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A child says when it has imported everything.
START_UP_S = 60.0
SHOWN_DIFFERENCES = 8
# Smaller numbers of an outcome are counts of tokens, which have to be equal.
_LEAST_INSTANT_NS = 100_000
PAIR = {"prefill": "prefill", "decode": "decode"}
Result = dict[str, Any]


def generate(args: argparse.Namespace) -> int:
    """Write instances, one JSON object per line."""
    seeds = range(args.seed, args.seed + args.number)
    lines = (json.dumps(instance(seed, args.backend, args.topology)) + "\n" for seed in seeds)
    Path(args.instances).write_text("".join(lines))
    return 0


# Run ------------------------------------------------------------------------------------------------


class Runner:
    """Runs instances in a child process; one that does not answer in time is killed and replaced."""

    def __init__(self, limit_s: float, serve: Callable[[Any, Any], None]) -> None:
        self._limit_s = limit_s
        self._serve = serve
        self._context = multiprocessing.get_context("spawn")
        self._child: multiprocessing.process.BaseProcess | None = None

    def result(self, item: dict[str, Any]) -> Result:
        """Records of an instance, or its error."""
        if self._child is None:
            self._start()
        self._tasks.put(item)
        try:
            return self._answers.get(timeout=self._limit_s)
        except queue.Empty:
            self.close()
            return {"seed": item["seed"], "error": f"no answer within {self._limit_s:g} s"}

    def close(self) -> None:
        """End the child process."""
        if self._child is not None:
            self._child.kill()
            self._child.join()
            self._child = None

    def _start(self) -> None:
        self._tasks, self._answers = self._context.Queue(), self._context.Queue()
        self._child = self._context.Process(
            target=self._serve, args=(self._tasks, self._answers), daemon=True
        )
        self._child.start()
        self._answers.get(timeout=START_UP_S)


def _serve(tasks: Any, answers: Any) -> None:
    importlib.import_module("aisimulate._runtime" if _has_runtime() else "dynamo._core")
    answers.put(None)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.jsonl"
        while True:
            answers.put(_replay(tasks.get(), trace))


def _has_runtime() -> bool:
    return importlib.util.find_spec("aisimulate") is not None


def _replay(item: dict[str, Any], trace: Path) -> Result:
    trace.write_text("".join(json.dumps(row) + "\n" for row in item["rows"]))
    run_payload = _run_by_runtime if _has_runtime() else _run_by_dynamo
    if item.get("by_content"):
        follow(ContentOrder(item["rows"], item["payload"]["spec"]["engine"]["rank"]["block_size"]))
    try:
        number, records = run_payload(item["payload"], str(trace))
    except BaseException as error:  # a panic of the reference is not an Exception
        return {"seed": item["seed"], "error": f"{type(error).__name__}: {error}"[:300]}
    return {"seed": item["seed"], "records": records, "num_requests": number}


def _run_by_runtime(payload: dict[str, Any], trace: str) -> tuple[int, list[Any]]:
    """Number of requests, and their records."""
    runtime = importlib.import_module("aisimulate._runtime")
    report = json.loads(runtime.run_replay_json(json.dumps(payload).replace(TRACE, trace)))
    return report["num_requests"], report.get("per_request", [])


def _run_by_dynamo(payload: dict[str, Any], trace: str) -> tuple[int, list[Any]]:
    """Number of requests, and their records; it takes no latency of handoffs."""
    core = importlib.import_module("dynamo._core")
    spec, traffic = payload["spec"], payload["traffic"]
    topology, fleet = spec["topology"], {}
    roles = {"workers": "engine"} if topology["kind"] == "aggregated" else PAIR
    for pool, role in roles.items():
        engine = spec["engine"] if role == "engine" else spec["engine"][role]
        settings = {"engine": engine["rank"], "dp_size": engine["dp_size"]}
        prefix = "extra" if role == "engine" else role
        fleet[f"{prefix}_engine_args"] = core._normalize_mocker_config(settings)
        workers = "num_workers" if role == "engine" else f"num_{role}_workers"
        fleet[workers] = topology[pool]["initial_workers"]
    options = {
        name: traffic[name] for name in ("replay_concurrency", "arrival_speedup_ratio") if name in traffic
    }
    result = core.run_mocker_trace_replay(
        [trace],
        trace_block_size=traffic["trace_block_size"],
        router_mode="round_robin",
        capture_per_request=True,
        **fleet,
        **options,
    )
    return len(result.per_request), result.per_request


def run(args: argparse.Namespace) -> int:
    """Run all instances of a file with this interpreter."""
    runner = Runner(args.limit, _serve)
    with Path(args.results).open("w") as results:
        for item in _lines(args.instances):
            if args.by_content:
                item["by_content"] = True
            results.write(json.dumps(runner.result(item)) + "\n")
    runner.close()
    return 0


# Compare --------------------------------------------------------------------------------------------


def compare(args: argparse.Namespace) -> int:
    """Print the differences between two result files and a summary; 1 if there is any difference."""
    verdicts: Counter[str] = Counter()
    for ours, theirs in zip(_lines(args.ours), _lines(args.theirs), strict=True):
        verdict, details = _verdict(ours, theirs, args.within)
        verdicts[verdict] += 1
        fine = verdicts["equal"] + verdicts["abort"] + verdicts["near"]
        if details and sum(verdicts.values()) - fine <= SHOWN_DIFFERENCES:
            print(f"seed {ours['seed']}: {verdict}", *details, sep="\n  ")
    equal, aborts, total = verdicts["equal"], verdicts["abort"], verdicts.total()
    near = f", {verdicts['near']} within {args.within} ns" if args.within else ""
    print(f"{equal + aborts}/{total} equal, of which {aborts} aborted there and completed here{near}")
    return int(equal + aborts + verdicts["near"] != total)


def _verdict(ours: Result, theirs: Result, within_ns: int = 0) -> tuple[str, list[str]]:
    if "error" in ours:
        return "failed here", [ours["error"]]
    if "error" in theirs:
        complete = len(ours["records"]) == ours["num_requests"]
        return ("abort", []) if complete else ("incomplete here", [theirs["error"]])
    here, there = _outcomes(ours), _outcomes(theirs)
    if here == there:
        return "equal", []
    only_here, only_there = list((here - there).elements()), list((there - here).elements())
    if within_ns and _are_near(only_here, only_there, within_ns):
        return "near", []
    return "different", [f"here  {only_here[:2]}", f"there {only_there[:2]}"]


def _are_near(here: list[Any], there: list[Any], within_ns: int) -> bool:
    """Whether each outcome has one of the other side whose numbers differ by so little."""
    left = list(there)
    for outcome in here:
        match = next((other for other in left if _is_near(outcome, other, within_ns)), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def _is_near(one: Any, other: Any, within_ns: int) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_near, one, other, repeat(within_ns)))
    if isinstance(one, int) and isinstance(other, int) and min(one, other) > _LEAST_INSTANT_NS:
        return abs(one - other) <= within_ns
    return one == other


def _outcomes(result: Result) -> Counter[tuple[Any, ...]]:
    return Counter(map(_outcome, result["records"]))


HANDOFF_TIMES = (
    "source_held_ms",
    "destination_reserved_ms",
    "destination_activated_ms",
    "source_released_ms",
)


def _outcome(record: dict[str, Any]) -> tuple[Any, ...]:
    times = ("arrival_time_ms", "first_token_ms", "last_token_ms", "terminal_time_ms", *HANDOFF_TIMES)
    admissions = tuple((_ns(h["at_ms"]), h["reused_input_tokens"]) for h in record["admission_history"])
    return (
        *(_ns(record[name]) for name in times),
        record["input_length"],
        record["output_length"],
        record["terminal_status"],
        record["prefill_worker_idx"],
        record["decode_worker_idx"],
        admissions,
        *(record.get(f"first_admission_{tier}_reused_input_tokens") for tier in ("g1", "host")),
    )


def _ns(ms: float | None) -> int | None:
    return None if ms is None else round(ms * 1e6)


def _lines(path: str) -> Iterator[dict[str, Any]]:
    with Path(path).open() as lines:
        yield from map(json.loads, lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True)
    gen = commands.add_parser("gen", help="write random instances")
    gen.add_argument("backend")
    gen.add_argument("number", type=int)
    gen.add_argument("seed", type=int)
    gen.add_argument("instances")
    gen.add_argument("--topology", choices=("aggregated", "disaggregated"), default="aggregated")
    gen.set_defaults(call=generate)
    runs = commands.add_parser("run", help="run instances with this interpreter")
    runs.add_argument("instances")
    runs.add_argument("results")
    runs.add_argument("--limit", type=float, default=10.0, help="seconds per instance")
    runs.add_argument("--by-content", action="store_true", help="ours gives up host memory as the reference")
    runs.set_defaults(call=run)
    diff = commands.add_parser("diff", help="compare two result files")
    diff.add_argument("ours")
    diff.add_argument("theirs")
    diff.add_argument("--within", type=int, default=0, help="accept times that differ by so many ns")
    diff.set_defaults(call=compare)
    return parser


def main() -> int:
    """Run one of the three commands."""
    args = _parser().parse_args()
    return args.call(args)


if __name__ == "__main__":
    sys.exit(main())
