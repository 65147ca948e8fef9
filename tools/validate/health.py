"""The health of the data behind the shipped runs and the quickstart, without a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.validate.runs import MeasuredRun, Pool
from tools.validate.scored import confidence_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisimulate.timing.aic.health import Confidence
    from tools.validate.text import Table

_QUICKSTART_TPS = (1, 2, 4, 8)


def quickstart_runs() -> list[MeasuredRun]:
    """Stand-ins for the engines of the quickstart example, as if they had been measured."""
    return [
        MeasuredRun(
            id=f"quickstart-tp{tp}",
            model="meta-llama/Meta-Llama-3.1-8B",
            system="h200_sxm",
            backend="vllm",
            backend_version="",
            precision="",
            pools=(Pool(1, tp, 1, 1, 1, 1),),
            isl=1024,
            osl=1024,
            concurrency=1,
            ttft_ms=1.0,
            tpot_ms=1.0,
        )
        for tp in _QUICKSTART_TPS
    ]


def judged_engines(runs: Iterable[MeasuredRun]) -> dict[tuple[str, ...], Confidence]:
    """Judge each deployment once: by model, precision, GPU, backend and shape."""
    found: dict[tuple[str, ...], Confidence] = {}
    for run in runs:
        shape = " + ".join(map(str, run.pools))
        key = (run.model, run.precision or "as published", run.system, run.backend, shape)
        if key not in found:
            found[key] = confidence_of(run)
    return found


def health_table(runs: Iterable[MeasuredRun]) -> Table:
    """One line per deployment, the flagged ones first."""
    titles = ("model", "precision", "GPU", "backend", "shape", "confidence", "flagged", "why")
    engines = judged_engines(runs)
    flagged = sum(bool(confidence.implausible) for confidence in engines.values())
    rows = [
        (*key, confidence.grade, "yes" if confidence.implausible else "", "; ".join(confidence.reasons))
        for key, confidence in sorted(engines.items(), key=lambda item: (not item[1].implausible, item[0]))
    ]
    return f"Health of the data: {flagged} of {len(engines)} deployments flagged", [titles, *rows]
