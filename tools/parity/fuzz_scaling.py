"""Hold replays whose pools scale by a script against the reference's.

    python -m tools.parity.fuzz_scaling PEER KIND TOPOLOGY COUNT [SEED]

PEER is the Python of an environment with ai-dynamo-runtime; KIND is that of `fuzz_pair.py` (vllm, sglang-mtp,
...), TOPOLOGY aggregated or disaggregated. A random script changes the pools tick by tick. What a policy is
shown at every tick (workers, traffic, forward passes), every change of a pool, worker time, and the times and
workers of all requests must be equal: to 1e-9, times to 1 ns. 1 if anything differs.
"""

from __future__ import annotations

import json
import math
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from random import Random
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Case = dict[str, Any]

_SECONDS = 1.0
_SHOWN = 6
_SUMS = ("duration_ms", "gpu_hours", "prefill_worker_seconds", "decode_worker_seconds", "completed_requests")
_TIMES = ("arrival_time_ms", "first_admit_ms", "first_token_ms", "terminal_time_ms")
_FACTS = ("input_length", "output_length", "prefill_worker_idx", "decode_worker_idx", "reused_input_tokens")
_OURS = ("offered_input_tokens", "offered_output_tokens")

# Cases ------------------------------------------------------------------------------------------------


def draw(seed: int, kind: str, topology: str) -> Case:
    """Draw a replay and a script for its pools."""
    from tools.parity.instances import instance  # noqa: PLC0415 - ours only

    rng = Random(f"scaling/{kind}/{topology}/{seed}")
    case = instance(seed, kind, topology)
    spec = case["payload"]["spec"]
    pair = topology == "disaggregated"
    startup_ms = rng.choice([0.0, 0.0, 7.0, 30.0, 100.0])
    for role in ("prefill", "decode") if pair else ("workers",):
        spec["topology"][role]["startup_delay_ms"] = startup_ms
    if pair:
        spec["topology"]["handoff_latency_ms"] = 0.0  # the reference takes none here
    case["plan"] = {
        "first_tick_ms": rng.choice([5.0, 10.0, 25.0]),
        "step_ms": rng.choice([10.0, 20.0, 35.0, 400.0]),
        "decisions": [_decision(rng, pair) for _ in range(rng.choice([1, 3, 8]))],
    }
    return case


def _decision(rng: Random, pair: bool) -> dict[str, int]:
    decision = {}
    for name in ("target_decode", "target_prefill") if pair else ("target_decode",):
        if rng.random() < 0.8:
            decision[name] = rng.randint(1, 4)
    return decision


# The reference's side: run in its interpreter ---------------------------------------------------------


class _Script:
    """Follows a plan, and keeps what it was shown."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self.shown: list[Any] = []

    def initial_tick_ms(self) -> float:
        return float(self._plan["first_tick_ms"])

    def on_tick(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        number, decisions = len(self.shown), self._plan["decisions"]
        self.shown.append(json.loads(json.dumps(snapshot)))
        decision = decisions[number] if number < len(decisions) else {}
        targets = {name: decision.get(name) for name in ("target_prefill", "target_decode")}
        return {**targets, "next_tick_ms": snapshot["now_ms"] + self._plan["step_ms"]}


def serve_there() -> None:
    """Replay the cases of standard input, one JSON object per line, and answer each with a line."""
    from dynamo import _core  # noqa: PLC0415 - only there

    for line in sys.stdin:
        case = json.loads(line)
        script = _Script(case["plan"])
        try:
            report = _replay_there(_core, case, script)
        except BaseException as error:  # a panic of the reference is not an Exception
            answer: Case = {"error": f"{type(error).__name__}: {error}"[:300]}
        else:
            answer = {
                "summary": dict(report.summary),
                "records": report.per_request,
                "operations": report.lifecycle_operations,
                "shown": script.shown,
            }
        sys.stdout.write("ANSWER" + json.dumps(answer) + "\n")
        sys.stdout.flush()


def _replay_there(core: Any, case: Case, script: _Script) -> Any:
    spec, traffic = case["payload"]["spec"], case["payload"]["traffic"]
    options = {name: traffic[name] for name in ("replay_concurrency",) if name in traffic}
    pair = spec["topology"]["kind"] == "disaggregated"
    for role in ("prefill", "decode") if pair else ("workers",):
        pool, engine = spec["topology"][role], spec["engine"][role] if pair else spec["engine"]
        settings = {"engine": engine["rank"], "dp_size": engine["dp_size"]}
        if pool["startup_delay_ms"]:
            settings["startup_time"] = pool["startup_delay_ms"] / 1000.0
        prefix = role if pair else "extra"
        options[f"{prefix}_engine_args"] = core._normalize_mocker_config(settings)
        options[f"num_{role}_workers" if pair else "num_workers"] = pool["initial_workers"]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as trace:
        trace.write("".join(json.dumps(row) + "\n" for row in case["rows"]))
        trace.flush()
        return core.run_mocker_trace_replay(
            [trace.name],
            trace_block_size=traffic["trace_block_size"],
            capture_per_request=True,
            scaling_policy=script,
            **options,
        )


class _Peer:
    """The reference in a process of its own, which is killed when it does not answer."""

    def __init__(self, python: str) -> None:
        self._command = [python, __file__, "--there"]
        self._process: subprocess.Popen[str] | None = None

    def ask(self, case: Case) -> Case:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        source, sink = self._process.stdin, self._process.stdout
        assert source is not None and sink is not None
        source.write(json.dumps(case) + "\n")
        source.flush()
        return self._read(sink)

    def _read(self, sink: IO[str]) -> Case:
        while select.select([sink], [], [], _SECONDS)[0] and (line := sink.readline()):
            if line.startswith("ANSWER"):
                answer: Case = json.loads(line[len("ANSWER") :])
                return answer
        self.close()
        return {"error": "no answer"}

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


# Our side, and the comparison -------------------------------------------------------------------------


def replay_here(case: Case) -> Case:
    """Replay a case with our own script."""
    from aisimulate.core.errors import AISimulateError  # noqa: PLC0415 - ours only
    from aisimulate.replay.execute import execute  # noqa: PLC0415 - ours only

    script = _Script(case["plan"])
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as trace:
        trace.write("".join(json.dumps(row) + "\n" for row in case["rows"]))
        trace.flush()
        payload = json.loads(json.dumps(case["payload"]).replace("<trace>", trace.name))
        try:
            report = execute(payload, scaling=script)
        except AISimulateError as error:
            return {"error": f"{type(error).__name__}: {error}"}
    return {
        "summary": report,
        "records": report["per_request"],
        "operations": report["lifecycle_operations"],
        "shown": json.loads(json.dumps(script.shown)),
    }


def difference(here: Case, there: Case) -> str | None:
    """Describe the first thing that is not the same."""
    if "error" in here:
        return f"error here: {here['error']}"
    for number, (ours, theirs) in enumerate(zip(here["shown"], there["shown"], strict=False)):
        for name in _OURS:
            ours["traffic"].pop(name)
        if (wrong := _first_wrong(ours, theirs, f"tick {number}")) is not None:
            return wrong
    if len(here["shown"]) != len(there["shown"]):
        return f"ticks: {len(here['shown'])} here, {len(there['shown'])} there"
    found = _first_wrong(here["operations"], there["operations"], "change")
    found = found or _first_wrong(_outcomes(here), _outcomes(there), "request")
    sums = [{name: one["summary"][name] for name in _SUMS} for one in (here, there)]
    return found or _first_wrong(*sums, "summary")


def _outcomes(answer: Case) -> list[Any]:
    rows = []
    for record in answer["records"]:
        times = [None if record[name] is None else round(record[name] * 1e6) for name in _TIMES]
        rows.append([*times, *(record[name] for name in _FACTS)])
    return sorted(rows, key=lambda row: [-1 if value is None else value for value in row])


def _first_wrong(ours: Any, theirs: Any, path: str) -> str | None:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        pairs: Iterator[tuple[Any, Any, Any]] = ((key, ours[key], theirs.get(key)) for key in ours)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = ((index, *pair) for index, pair in enumerate(zip(ours, theirs, strict=True)))
    else:
        return None if _same(ours, theirs) else f"{path}: {ours!r} here, {theirs!r} there"
    found = (_first_wrong(mine, other, f"{path} {key}") for key, mine, other in pairs)
    return next((wrong for wrong in found if wrong is not None), None)


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)
    return bool(ours == theirs)


def main() -> int:
    """Run the cases asked for on the command line; 1 if any differs."""
    if len(sys.argv) not in (5, 6):
        print(__doc__, file=sys.stderr)
        return 2
    kind, topology, count = sys.argv[2], sys.argv[3], int(sys.argv[4])
    first = int(sys.argv[5]) if len(sys.argv) == 6 else int(time.time())
    peer, verdicts, ticks = _Peer(sys.argv[1]), Counter[str](), 0
    for seed in range(first, first + count):
        case = draw(seed, kind, topology)
        there = peer.ask(case)
        if "error" in there:
            verdicts["aborted"] += 1
            continue
        ticks += len(there["shown"])
        wrong = difference(replay_here(case), there)
        verdicts["equal" if wrong is None else "different"] += 1
        if wrong is not None and verdicts["different"] <= _SHOWN:
            print(f"seed {seed}: {wrong}")
    peer.close()
    equal, aborted = verdicts["equal"], verdicts["aborted"]
    print(
        f"{kind} {topology}: {equal} equal, {verdicts['different']} differ, {aborted} aborted there; "
        f"{ticks} ticks, seeds from {first}"
    )
    return int(verdicts["different"] > 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["--there"]:
        serve_there()
    else:
        raise SystemExit(main())
