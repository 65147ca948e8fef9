"""Run by the tests of Ctrl-C and SIGTERM: `spica` on an evaluator that measures one plan and then hangs."""

from __future__ import annotations

import signal
import sys

from search_fakes import MoodyEvaluator, make_branch

import aisimulate.spica.evaluate
import aisimulate.spica.plan
import aisimulate.spica.search
import aisimulate.spica.trace_facts
from aisimulate.cli.spica import main
from aisimulate.cli.termination import cleaning_up


def run() -> int:
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # whoever runs tests in the background ignores it
    aisimulate.spica.evaluate.check_kv_capacity = lambda *args, **kwargs: None
    aisimulate.spica.trace_facts.max_sequence_tokens = lambda *args: 4096
    aisimulate.spica.search.resolve_backend_version = lambda sku, backend, requested: "1"
    aisimulate.spica.search.ReplayEvaluator = lambda workload, goal, **more: MoodyEvaluator()
    aisimulate.spica.plan.enumerate_branches = lambda config, **_: [make_branch(seqs=(256, 512))]
    with cleaning_up():
        return main(sys.argv[1:], default_format="lines")


if __name__ == "__main__":
    raise SystemExit(run())
