"""Measured runs: one deployment at one concurrency, as a public file states it."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.core.shown import show

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# One checkpoint architecture and size under two names; a file may list one measurement under both.
_FAMILIES = {
    "deepseek-ai/DeepSeek-R1": "deepseek-ai/DeepSeek-V3",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-ai/DeepSeek-V3",
    "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-ai/DeepSeek-V3",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Llama-3.1-8B-Instruct",
    "nvidia/Qwen3-32B-NVFP4": "Qwen/Qwen3-32B",
}
SHORTEST = 0.8
"""Lengths are uniform from this share of the nominal one to all of it, as InferenceX draws them."""

# Runs of AI Configurator's own laboratory name a file GPU/engine/version/model. The runner of its
# evaluation asks for lengths without deviation, minimum and maximum the same.
_LABORATORY = re.compile(r"(?:^|[=/])\w+/(?:trtllm|vllm|sglang)/[^/;]+/[^/;]+\.csv")

_NEEDED = (
    "id",
    "model",
    "hardware",
    "backend",
    "precision",
    "mode",
    "tp",
    "isl",
    "osl",
    "concurrency",
    "ttft_ms",
    "tpot_ms",
)


@dataclass(frozen=True, slots=True)
class Pool:
    """Equal workers, each of one parallel shape; sizes are numbers of GPUs, `workers` a number of workers."""

    workers: int
    tp: int
    pp: int
    attention_dp: int
    moe_tp: int
    moe_ep: int

    @property
    def gpus(self) -> int:
        """GPUs of all workers."""
        return self.workers * self.tp * self.pp * self.attention_dp

    @property
    def gpus_per_worker(self) -> int:
        """GPUs of one worker."""
        return self.gpus // self.workers

    def __str__(self) -> str:
        experts = f" moe {self.moe_tp}x{self.moe_ep}" if self.moe_tp * self.moe_ep > 1 else ""
        data = f" dp{self.attention_dp}" if self.attention_dp > 1 else ""
        count = f"{self.workers} x " if self.workers > 1 else ""
        return f"{count}tp{self.tp}{data}{experts}"


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """Means of one closed loop of `concurrency` requests; lengths are nominal tokens, times ms.

    One pool is an aggregated deployment, two are prefill and decode workers.
    """

    id: str
    model: str
    system: str
    backend: str
    backend_version: str
    precision: str
    pools: tuple[Pool, ...]
    isl: int
    osl: int
    concurrency: int
    ttft_ms: float
    tpot_ms: float
    notes: str = ""

    @property
    def family(self) -> str:
        """The model, whichever of its names the file uses."""
        return _FAMILIES.get(self.model, self.model)

    @property
    def is_of_laboratory(self) -> bool:
        """Whether AI Configurator's own laboratory measured it, and not InferenceX."""
        return _LABORATORY.search(self.notes) is not None

    @property
    def shortest(self) -> float:
        """The share of the nominal lengths that the shortest requests have."""
        return 1.0 if self.is_of_laboratory else SHORTEST

    @property
    def mean_osl(self) -> float:
        """Tokens that a request gets on average."""
        return self.osl * (1.0 + self.shortest) / 2.0

    @property
    def is_pair(self) -> bool:
        """Whether prefill and decode have workers of their own."""
        return len(self.pools) > 1

    @property
    def deployment(self) -> tuple[object, ...]:
        """What was deployed and asked of it, without the engine's version and the concurrency."""
        return (self.family, self.system, self.backend, self.precision, self.pools, self.isl, self.osl)

    @property
    def curve(self) -> tuple[object, ...]:
        """What all runs share that differ in nothing but the concurrency."""
        return (*self.deployment, self.backend_version)


def read_runs(path: Path) -> list[MeasuredRun]:
    """Read a table of runs, in its order. Raises `InputError` naming file, line, column, value and rule."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InputError(f"could not read {path}: {error.strerror}") from error
    table = csv.DictReader(text.splitlines())
    missing = [name for name in _NEEDED if name not in (table.fieldnames or ())]
    if missing:
        raise InputError(f"{path}:1: the column {missing[0]!r} is missing")
    runs: dict[str, MeasuredRun] = {}
    for row in table:
        where = f"{path}:{table.line_num}"
        run = _run(row, where)
        if run.id in runs:
            raise InputError(f"{where}: the id {show(run.id)} is used twice")
        runs[run.id] = run
    return list(runs.values())


def _run(row: Mapping[str, str], where: str) -> MeasuredRun:
    mode = row["mode"]
    if mode not in ("agg", "disagg"):
        raise InputError(f"{where}: mode {show(mode)} is not agg or disagg")
    pools = (_pool(row, "", where),) if mode == "agg" else (_pool(row, "p_", where), _pool(row, "d_", where))
    return MeasuredRun(
        id=row["id"],
        model=row["model"],
        system=row["hardware"],
        backend=row["backend"],
        backend_version=row.get("backend_version") or "",
        precision=row["precision"],
        pools=pools,
        isl=_whole(row, "isl", where),
        osl=_whole(row, "osl", where),
        concurrency=_whole(row, "concurrency", where),
        ttft_ms=_positive(row, "ttft_ms", where),
        tpot_ms=_positive(row, "tpot_ms", where),
        notes=row.get("notes") or "",
    )


def _pool(row: Mapping[str, str], prefix: str, where: str) -> Pool:
    """Read one pool; a size that is empty or 0 stands for 1 (models without experts, no data parallelism)."""
    dp = "attn_dp" if not prefix else f"{prefix}dp"
    names = {"tp": f"{prefix}tp", "pp": f"{prefix}pp", "attention_dp": dp}
    names |= {"moe_tp": f"{prefix}moe_tp", "moe_ep": f"{prefix}moe_ep"}
    sizes = {field: _size(row, name, where) for field, name in names.items()}
    return Pool(workers=_size(row, f"{prefix}workers", where) if prefix else 1, **sizes)


def _size(row: Mapping[str, str], name: str, where: str) -> int:
    return max(1, _whole(row, name, where, low=0)) if row.get(name) else 1


def _whole(row: Mapping[str, str], name: str, where: str, low: int = 1) -> int:
    value = row[name]
    if not value.isdecimal() or int(value) < low:
        raise InputError(f"{where}: {name} {show(value)} is not a whole number from {low} on")
    return int(value)


def _positive(row: Mapping[str, str], name: str, where: str) -> float:
    try:
        value = float(row[name])
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise InputError(f"{where}: {name} {show(row[name])} is not a number above 0")
    return value
