"""Run by the tests of the pool's end: two workers on an evaluator that never finishes; Ctrl-C gives 130."""

from __future__ import annotations

import signal

from search_fakes import SlowEvaluator, make_context, suggest

import aisimulate.spica.evaluate
from aisimulate.spica.evaluate import prepare
from aisimulate.spica.executor import WorkerPool


def run() -> int:
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # whoever runs tests in the background ignores it
    aisimulate.spica.evaluate.check_kv_capacity = lambda *args, **kwargs: None
    context = make_context(SlowEvaluator())
    tasks = [prepare(suggest(seqs), context) for seqs in (1, 2)]
    try:
        with WorkerPool(context, workers=2, max_eval_seconds=None) as pool:
            list(pool.run(tasks))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(run())
