"""What closed loops cost that end when they have settled, and how far their reports are from full ones."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.replay.early_stop import execute_until_settled
from aisimulate.replay.execute import execute
from aisimulate.replay.parts import EARLY_STOP_KEY
from aisimulate.spica.evaluator import ReplayEvaluator
from tools.bench_screen.candidates import random_points, replayed
from tools.bench_screen.closed_loops import SETS, closed_loop
from tools.bench_screen.lines import Line, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.bench_screen.candidates import Problem

_KEYS = {
    "C / mean e2e": "mean_e2e_latency_ms",
    "tok/s/GPU": "output_throughput_tok_s",
    "tok/s/user": "mean_output_token_throughput_per_user",
    "mean TTFT": "mean_ttft_ms",
}


def early_stop_lines(each: int, seed: int) -> Iterator[Line]:
    """Replay random candidates to their end, and until they have settled."""
    costs: list[tuple[float, float, bool]] = []
    errors: list[list[float]] = []
    for name, (space, prompt, output) in SETS.items():
        asked = closed_loop(name, space, prompt, output)
        for cost, error in _compared(asked, each, seed):
            costs.append(cost)
            errors.append(error)
    full, short, stopped = np.array(costs).T
    share = float(short.sum() / full.sum())
    yield Line(
        f"early stop of {len(costs)} loops, {int(stopped.sum())} settled",
        f"CPU {share:.3f} of the full cost (mean of shares {np.mean(short / full):.3f})",
        "<= .45",
        share <= 0.45,
    )
    for column, what in enumerate(_KEYS):
        wrong = abs(np.array(errors)[:, column])
        median, p90 = float(np.median(wrong)), float(np.quantile(wrong, 0.9))
        bound = what == "C / mean e2e"
        yield Line(
            f"error of {what}",
            f"median {percent(median)}, p90 {percent(p90)}, max {percent(float(wrong.max()))}",
            "p90 <= 0.7 %" if bound else "",
            not bound or p90 <= 0.007,
        )


def _compared(
    asked: Problem, each: int, seed: int
) -> Iterator[tuple[tuple[float, float, bool], list[float]]]:
    """Yield (CPU s in full, CPU s until settled, whether it settled), and the errors of the figures."""
    evaluator = asked.context.evaluator
    assert isinstance(evaluator, ReplayEvaluator)
    for branch in asked.plan.branches:
        done = 0
        for point in random_points(branch, seed):
            found = replayed(asked, point)
            if found is None or (found.prepared.concurrency or 0) < 4 or _runs_in_step(found.prepared.config):
                continue
            payload = evaluator.payload(found.prepared.plan, concurrency_override=found.prepared.concurrency)
            gc.collect()  # its turn would come now and then, for whoever is next
            gc.disable()
            started_s = time.process_time()
            full = execute(payload)
            between_s = time.process_time()
            short = execute_until_settled(payload)
            cost = between_s - started_s, time.process_time() - between_s, EARLY_STOP_KEY in short
            gc.enable()
            yield cost, [short[key] / full[key] - 1 for key in _KEYS.values()]
            done += 1
            if done == each:
                break


def _runs_in_step(sample: dict[str, object]) -> bool:
    """Whether a search would replay it in full anyway."""
    ranks = [
        sample.get(name) or 1 for name in ("attention_dp", "prefill_attention_dp", "decode_attention_dp")
    ]
    return sample["backend"] == "sglang" and any(count != 1 for count in ranks)
