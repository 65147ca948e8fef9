"""What a search costs besides its replays and its sampler: `python -m tools.bench.overhead`.

Replays are 0.1 s of sleep in worker processes; everything else is real: enumeration, capacity checks, ledger,
pool. Prints one line of JSON. `overhead_share` is of the wall time of the search, with enumeration, the
start and the end of the workers; `whole_share` is that with the imports of this process before it and the
end of the ledger after it; `rounds_share` is of all rounds but the first. `replay_s` is the time that the
replays take at least, on that many workers. `main_cpu_s` is the CPU time of the searching process in all
rounds but the first, sampler included: on a machine that others use, too, it is the steadier figure.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

REPLAY_S = 0.1
CONFIG = {
    "search_space": {
        "model_name": "meta-llama/Meta-Llama-3.1-8B",
        "hardware_sku": "h200_sxm",
        "gpu_budget": 8,
        "deployment_mode": ["agg"],
        "planner_scaling_policy": ["disabled"],
    },
    "workload": {"isl": 1000, "osl": 100, "concurrency": 64, "num_request_ratio": 4},
    "goal": {"target": "throughput_per_gpu"},
}


class SleepingEvaluator:
    """Gives a made-up report after a tenth of a second."""

    def evaluate(self, plan, *, concurrency_override=None):
        time.sleep(REPLAY_S)
        seqs = plan.agg_engine_args["max_num_seqs"]
        return {"output_throughput_tok_s": float(seqs), "gpu_hours": 1.0, "duration_ms": 3_600_000.0}


class TimedSampler:
    """Passes calls on and adds up the time they take."""

    def __init__(self, inner):
        self.branch = inner.branch
        self.spent_s = 0.0
        self._inner = inner

    def suggest(self, count):
        return self._timed(self._inner.suggest, count)

    def observe(self, suggestion, metrics):
        self._timed(self._inner.observe, suggestion, metrics)

    def observe_infeasible(self, suggestion, reason):
        self._timed(self._inner.observe_infeasible, suggestion, reason)

    def _timed(self, call, *arguments):
        started_s = time.perf_counter()
        try:
            return call(*arguments)
        finally:
            self.spent_s += time.perf_counter() - started_s


def measure(sampler, rounds, per_round, workers):
    """Search once and return the figures.

    What a search needs is imported here: workers import this module as well, and none of that.
    """
    begun_s = time.perf_counter()
    from aisimulate.spica.config import SmartSearchConfig  # noqa: PLC0415 - see above
    from aisimulate.spica.ledger import Ledger  # noqa: PLC0415 - see above
    from aisimulate.spica.sampler import make_branch_sampler  # noqa: PLC0415 - see above
    from aisimulate.spica.search import run_search  # noqa: PLC0415 - see above

    made, ends_s, cpu_s = [], [], []

    def on_round(number, found):
        ends_s.append(time.perf_counter())
        cpu_s.append(time.process_time())

    def factory(branch, **asked):
        made.append(TimedSampler(make_branch_sampler(branch, **asked)))
        return made[-1]

    sweep = {"sampler": sampler, "max_rounds": rounds, "candidates_per_round": per_round}
    config = SmartSearchConfig.model_validate(CONFIG | {"sweep": {**sweep, "parallel_evals": workers}})
    with tempfile.TemporaryDirectory() as folder, Ledger.create(Path(folder) / "run.sqlite") as ledger:
        started_s = time.perf_counter()
        result = run_search(
            config,
            evaluator=SleepingEvaluator(),
            sampler_factory=factory,
            ledger=ledger,
            on_round=on_round,
        )
        wall_s = time.perf_counter() - started_s
    whole_s = time.perf_counter() - begun_s
    replays = result.progress.tally.evaluated
    replay_s, sampler_s = replays * REPLAY_S / workers, made[0].spent_s
    overhead_s = wall_s - replay_s - sampler_s
    later_s = ends_s[-1] - ends_s[0]
    later_replay_s = (rounds - 1) * per_round * REPLAY_S / workers
    return {
        "replays": replays,
        "workers": workers,
        "wall_s": round(wall_s, 3),
        "replay_s": round(replay_s, 3),
        "sampler_s": round(sampler_s, 3),
        "overhead_s": round(overhead_s, 3),
        "overhead_share": round(overhead_s / wall_s, 4),
        "whole_share": round((whole_s - replay_s - sampler_s) / whole_s, 4),
        "main_cpu_s": round(cpu_s[-1] - cpu_s[0], 3),
        "rounds_share": round((later_s - later_replay_s - sampler_s) / later_s, 4),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sampler", default="random")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--per-round", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    print(json.dumps(measure(asked.sampler, asked.rounds, asked.per_round, asked.workers)))


if __name__ == "__main__":
    main()
