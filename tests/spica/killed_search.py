"""Run by the kill tests: `spica` without model or hardware data; replays take a moment and are written down.

`KILLED_LOG` names the file that gets a line per replay that ended. Any process that this one leaves behind
holds its standard output, so that a test can wait for the end of all.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from search_fakes import SeqsEvaluator, make_branch

import aisimulate.spica.evaluate
import aisimulate.spica.plan
import aisimulate.spica.search
import aisimulate.spica.trace_facts
from aisimulate.cli.spica import main


class LoggedEvaluator(SeqsEvaluator):
    """Fails for every fifth number of sequences."""

    def evaluate(self, plan, *, concurrency_override=None):
        seqs = plan.agg_engine_args["max_num_seqs"]
        time.sleep(0.02)
        with Path(os.environ["KILLED_LOG"]).open("a") as log:
            log.write(f"{seqs}\n")
        if seqs % 5 == 0:
            raise ValueError(f"no good: {seqs}")
        return super().evaluate(plan, concurrency_override=concurrency_override)


def run() -> int:
    aisimulate.spica.evaluate.check_kv_capacity = lambda *args, **kwargs: None
    aisimulate.spica.trace_facts.max_sequence_tokens = lambda *args: 4096
    aisimulate.spica.search.resolve_backend_version = lambda sku, backend, requested: "1"
    aisimulate.spica.search.ReplayEvaluator = lambda workload, goal, **more: LoggedEvaluator()
    aisimulate.spica.plan.enumerate_branches = lambda config, **_: [make_branch(seqs=range(1, 2001))]
    return main(sys.argv[1:], default_format="lines")


if __name__ == "__main__":
    raise SystemExit(run())
