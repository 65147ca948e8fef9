"""The runs that the installed AI Configurator ships, of which the folder `data/silicon` has a cut."""

from __future__ import annotations

import csv
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tools.validate.runs import MeasuredRun, Pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FILE = Path("systems/silicon_sample.csv")
_CONCURRENCY = re.compile(r"silicon_concurrency=(\d+)")


def bundled_runs() -> list[MeasuredRun]:
    """Read its aggregated runs that state their concurrency; none if it has no such file."""
    package = find_spec("aiconfigurator_core")
    if package is None or not package.submodule_search_locations:
        return []
    path = Path(package.submodule_search_locations[0]) / _FILE
    return list(_runs(path)) if path.is_file() else []


def _runs(path: Path) -> Iterator[MeasuredRun]:
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            stated = _CONCURRENCY.search(row["silicon_data_source"])
            if row["mode"] == "agg" and stated is not None:
                yield _run(row, int(stated[1]))


def _run(row: Mapping[str, str], concurrency: int) -> MeasuredRun:
    return MeasuredRun(
        id=row["id"],
        model=row["model_path"],
        system=row["system"],
        backend=row["backend"],
        backend_version=row["backend_version"],
        precision=row["precision"],
        pools=(
            Pool(
                workers=1,
                tp=_size(row["tp_size"]),
                pp=_size(row["pp_size"]),
                attention_dp=_size(row["attention_dp_size"]),
                moe_tp=_size(row["moe_tp_size"]),
                moe_ep=_size(row["moe_ep_size"]),
            ),
        ),
        isl=int(row["isl"]),
        osl=int(row["osl"]),
        concurrency=concurrency,
        ttft_ms=float(row["silicon_ttft_ms"]),
        tpot_ms=float(row["silicon_tpot_ms"]),
        notes=row["silicon_data_source"],
    )


def _size(text: str) -> int:
    return max(1, int(text)) if text else 1
