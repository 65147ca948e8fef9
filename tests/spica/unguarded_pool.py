"""Run by a test of the pool: a search started at the top of a module, without a `__main__` guard."""

from __future__ import annotations

import sys

from search_fakes import SeqsEvaluator, make_context, suggest

import aisimulate.spica.evaluate
from aisimulate.spica.evaluate import prepare
from aisimulate.spica.executor import EvaluatorPoolError, WorkerPool

aisimulate.spica.evaluate.check_kv_capacity = lambda *args, **kwargs: None
context = make_context(SeqsEvaluator())
try:
    with WorkerPool(context, workers=1, max_eval_seconds=None) as pool:
        list(pool.run([prepare(suggest(), context)]))
except EvaluatorPoolError as error:
    print(f"told: {error}")
    sys.exit(3)
