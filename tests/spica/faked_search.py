"""Run by the tests of standard streams: `spica` in a process of its own, without model or hardware data."""

from __future__ import annotations

import sys

from search_fakes import SeqsEvaluator, make_branch

import aisimulate.spica.evaluate
import aisimulate.spica.plan
import aisimulate.spica.search
import aisimulate.spica.trace_facts
from aisimulate.cli.spica import main


def run() -> int:
    aisimulate.spica.evaluate.check_kv_capacity = lambda *args, **kwargs: None
    aisimulate.spica.trace_facts.max_sequence_tokens = lambda *args: 4096
    aisimulate.spica.search.resolve_backend_version = lambda sku, backend, requested: "1"
    aisimulate.spica.search.ReplayEvaluator = lambda workload, goal, **more: SeqsEvaluator()
    aisimulate.spica.plan.enumerate_branches = lambda config, **_: [make_branch()]
    return main(sys.argv[1:], default_format="lines")


if __name__ == "__main__":
    raise SystemExit(run())
