"""One search in a process of its own: prints its trail, its peak memory and what the sampler said as JSON.

python -m tools.bench_search.child PROBLEM SAMPLER SCREEN(on|off) SEED EVALUATIONS
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aisimulate.spica.sampler import make_branch_sampler
from tools.bench_search.optuna_side import OptunaSide
from tools.bench_search.problems import PROBLEMS, best_score
from tools.bench_search.rounds import search

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.spica.parallel_enum import ParallelConfig
    from aisimulate.spica.samplers.base import BranchSampler
    from tools.bench_search.problem import Problem


def main() -> int:
    """Run it."""
    name, policy, screen, seed, evaluations = sys.argv[1:]
    problem = PROBLEMS[name]()
    sampler = _sampler(problem, policy, screen == "on", int(seed))
    trail = search(problem, sampler, int(evaluations), best_score(name))
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    notes = sampler.notes() if hasattr(sampler, "notes") else []
    print(json.dumps(asdict(trail) | {"peak_mb": peak_mb, "notes": notes}))
    return 0


def _sampler(problem: Problem, policy: str, screened: bool, seed: int) -> BranchSampler:
    if policy.startswith("optuna-"):
        start = _sampler(problem, "pool-gp", screened, seed) if screened else None
        return OptunaSide(problem, policy.removeprefix("optuna-"), seed, start)

    def screen(points: Sequence[tuple[Mapping[str, Any], ParallelConfig]]) -> list[list[float] | None]:
        return [problem.screen(selection, config) for selection, config in points]

    return make_branch_sampler(
        problem.branch,
        study_id=problem.name,
        objectives=problem.objectives,
        seed=seed,
        policy=policy,
        screen=screen if screened else None,
    )


if __name__ == "__main__":
    raise SystemExit(main())
