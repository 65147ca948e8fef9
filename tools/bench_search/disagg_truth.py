"""The true front of the disaggregated problem, by trying everything that can be on it.

First every pair of pools is walked along the number of decoding requests, from which its load follows
without searching; then whatever comes within a few per cent of the front so found is solved at every load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aisimulate.spica.pool_gp.fronts import front_of_two
from tools.bench_search.disagg import DECODE_SEQS, MOST_REQUESTS, PREFILL_SEQS, Disagg, Points
from tools.bench_search.problem import LOAD_STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

_WALKED = 64  # numbers of decoding requests that a pair is walked along
_NEAR = 1.02
_AT_ONCE = 500


def true_front(problem: Disagg) -> Floats:
    """Return the values on the front, one row each."""
    members = _members(problem)
    best = np.empty((0, 2))
    for rows in _chunks(members):
        values, _, possible = _walk(problem, rows)
        best = _front(np.concatenate([best, values[possible]]))
    front = np.empty((0, 2))
    for rows in _chunks(members):
        points, steps = _near(problem, rows, best)
        values, feasible = problem.solve(points, steps)
        front = _front(np.concatenate([front, values[feasible]]))
    return front


def _members(problem: Disagg) -> Ints:
    """List all deployments but for their load, as rows of the columns of `Points`.

    Of the settings with the same prefill batch, only the smallest token budget, whose KV cache is largest.
    """
    engines, isl, budgets = problem.tables.engines, problem.tables.isl, problem.tables.budgets
    pairs = np.array(
        [
            (engines[b, c.prefill.shape], c.prefill.replicas, engines[b, c.decode.shape], c.decode.replicas)
            for c, backends in problem.branch.supported_backends.items()
            for b in sorted(backends)
        ]
    )
    batches = [
        (min(place for place, budget in enumerate(budgets) if budget >= seqs * isl), seqs)
        for seqs in PREFILL_SEQS
        if seqs * isl <= budgets[-1]
    ]
    knobs = np.array([(*batch, seqs) for batch in batches for seqs in DECODE_SEQS])
    return np.column_stack([np.repeat(pairs, len(knobs), axis=0), np.tile(knobs, (len(pairs), 1))])


def _chunks(members: Ints) -> Iterator[Ints]:
    return (members[at : at + _AT_ONCE] for at in range(0, len(members), _AT_ONCE))


def _points(rows: Ints, each: Ints) -> Points:
    return Points(*(np.repeat(column, each) for column in rows.T))


def _walk(problem: Disagg, rows: Ints) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Solve rows backwards, from how many requests decode to the load; tell which loads are possible."""
    points = _points(rows, np.full(len(rows), _WALKED))
    held = problem.held(points)
    most = np.minimum(held, MOST_REQUESTS)
    steps = np.tile(np.append(0.0, np.geomspace(5e-4, 1.0, _WALKED - 1)), len(rows))
    running = np.maximum(1.0, steps * most)
    rate, gap_s = problem.decode(points, running)
    possible = problem.keeps_up(points, rate) & (held >= 1) & problem.holds_prompts(points)
    inside = running + rate * problem.prefill_stay_s(points, rate)
    loads = LOAD_STEPS * inside / np.maximum(held, 1.0)
    possible &= loads <= 1.02 * LOAD_STEPS + 2
    return np.column_stack([rate * problem.tables.osl / problem.gpus(points), 1.0 / gap_s]), loads, possible


def _near(problem: Disagg, rows: Ints, best: Floats) -> tuple[Points, Ints]:
    """List the deployments of rows, and their loads in thousandths, that come near the front."""
    values, loads, possible = _walk(problem, rows)
    # `best` falls in column 0 and rises in column 1: what does the front offer from this column 0 on?
    place = np.searchsorted(-best[:, 0], -_NEAR * values[:, 0], side="right") - 1
    offered = np.where(place >= 0, best[np.maximum(place, 0), 1], 0.0)
    near = (possible & (_NEAR * values[:, 1] >= offered)).reshape(len(rows), _WALKED)
    beside = near.copy()
    beside[:, 1:] |= near[:, :-1]
    beside[:, :-1] |= near[:, 1:]
    chosen = near.any(1)
    reach = loads.reshape(len(rows), _WALKED)[chosen]
    low = np.where(beside[chosen], reach, np.inf).min(1)
    high = np.where(beside[chosen] & np.isfinite(reach), reach, -np.inf).max(1)
    first = np.clip(np.floor(low) - 1, 0, LOAD_STEPS).astype(int)
    last = np.clip(np.ceil(high) + 1, 0, LOAD_STEPS).astype(int)
    counts = last - first + 1
    steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    return _points(rows[chosen], counts), steps


def _front(points: Floats) -> Floats:
    return points[front_of_two(points)]
