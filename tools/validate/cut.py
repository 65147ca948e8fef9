"""Cut `data/silicon/curves.csv` out of the file that AI Configurator ships: python -m tools.validate.cut.

For each model, GPU, backend and precision that anchors.csv lacks, the curve with the most concurrencies (at
least four), of equally many the first by name. Chosen without looking at any error.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from tools.validate.bundled import bundled_runs
from tools.validate.repeats import set_aside
from tools.validate.runs import read_runs
from tools.validate.scored import MOST_GPUS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.validate.runs import MeasuredRun

FOLDER = Path(__file__).resolve().parents[2] / "data/silicon"
LEAST_ROWS = 4
_COLUMNS = [
    "id",
    "source",
    "licence",
    "model",
    "hardware",
    "backend",
    "backend_version",
    "precision",
    "mode",
    "tp",
    "pp",
    "attn_dp",
    "moe_tp",
    "moe_ep",
    "isl",
    "osl",
    "concurrency",
    "ttft_ms",
    "tpot_ms",
    "notes",
]
_HOME = re.compile(r"source_file=/\S*?/data/")


def cut(runs: Iterable[MeasuredRun], others: Iterable[MeasuredRun]) -> list[MeasuredRun]:
    """Choose the curves of `runs` whose like is not among `others`."""
    runs = list(runs)
    aside = set_aside(runs)
    present = {_kind(run) for run in others if not run.is_pair}
    curves: dict[object, dict[int, MeasuredRun]] = defaultdict(dict)
    for run in runs:
        if run.id not in aside and run.pools[0].gpus_per_worker <= MOST_GPUS and _kind(run) not in present:
            curves[run.curve].setdefault(run.concurrency, run)
    best: dict[object, list[MeasuredRun]] = {}
    for _, rows in sorted(curves.items(), key=lambda item: (-len(item[1]), repr(item[0]))):
        if len(rows) >= LEAST_ROWS:
            ordered = [rows[concurrency] for concurrency in sorted(rows)]
            best.setdefault(_kind(ordered[0]), ordered)
    return [run for kind in sorted(best, key=repr) for run in best[kind]]


def table_text(runs: Iterable[MeasuredRun], source: str) -> str:
    """Write runs as a table with the columns of anchors.csv that they need."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for run in runs:
        (pool,) = run.pools
        writer.writerow(
            {
                "id": run.id,
                "source": source,
                "licence": "Apache-2.0",
                "model": run.model,
                "hardware": run.system,
                "backend": run.backend,
                "backend_version": run.backend_version,
                "precision": run.precision,
                "mode": "agg",
                "tp": pool.tp,
                "pp": pool.pp,
                "attn_dp": pool.attention_dp,
                "moe_tp": pool.moe_tp,
                "moe_ep": pool.moe_ep,
                "isl": run.isl,
                "osl": run.osl,
                "concurrency": run.concurrency,
                "ttft_ms": f"{run.ttft_ms:.3f}",
                "tpot_ms": f"{run.tpot_ms:.4f}",
                "notes": _HOME.sub("source_file=", run.notes),
            }
        )
    return text.getvalue()


def _kind(run: MeasuredRun) -> tuple[str, ...]:
    return (run.family, run.system, run.backend, run.precision)


def main() -> None:
    """Write the file."""
    release = version("aiconfigurator-core")
    source = f"ai-dynamo/aiconfigurator systems/silicon_sample.csv (aiconfigurator-core {release})"
    runs = cut(bundled_runs(), read_runs(FOLDER / "anchors.csv"))
    (FOLDER / "curves.csv").write_text(table_text(runs, source), "utf-8")


if __name__ == "__main__":
    main()
