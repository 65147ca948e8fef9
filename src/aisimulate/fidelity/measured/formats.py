"""Which tool wrote a result file, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError, nearest
from aisimulate.core.shown import cut
from aisimulate.fidelity.measured import (
    aiperf,
    guidellm,
    inference_perf,
    own,
    sglang_bench,
    vllm_bench,
    vllm_clocks,
)
from aisimulate.fidelity.measured.document import read_document

if TYPE_CHECKING:
    from pathlib import Path

    from aisimulate.fidelity.measured.document import Document
    from aisimulate.fidelity.measured.run import MeasuredRun


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of result file. `sought` says what a file is recognised by."""

    sought: str
    fits: Callable[[Document], bool]
    runs: Callable[[Document], list[MeasuredRun]]


FORMATS = {
    "aisimulate": Format(own.SOUGHT, own.fits, own.runs),
    "aisimulate-records": Format(own.SOUGHT_RECORDS, own.fits_records, own.runs_of_records),
    "vllm-clocks": Format(vllm_clocks.SOUGHT, vllm_clocks.fits, vllm_clocks.runs),
    "vllm": Format(vllm_bench.SOUGHT, vllm_bench.fits, vllm_bench.runs),
    "sglang": Format(sglang_bench.SOUGHT, sglang_bench.fits, sglang_bench.runs),
    "aiperf": Format(aiperf.SOUGHT, aiperf.fits, aiperf.runs),
    "aiperf-records": Format(aiperf.SOUGHT_RECORDS, aiperf.fits_records, aiperf.runs_of_records),
    "guidellm": Format(guidellm.SOUGHT, guidellm.fits, guidellm.runs),
    "inference-perf": Format(inference_perf.SOUGHT, inference_perf.fits, inference_perf.runs),
    "inference-perf-requests": Format(
        inference_perf.SOUGHT_REQUESTS, inference_perf.fits_requests, inference_perf.runs_of_requests
    ),
}


def read_run(path: Path, tool: str | None = None, part: int | None = None) -> MeasuredRun:
    """Read the run in a result file.

    `tool` is one of `FORMATS`, None to find out; `part` says which run of several, from 1.

    Raises:
        InputError: one line with file, place, value and rule; of an unknown file what was looked for.
    """
    if tool is not None and tool not in FORMATS:
        raise InputError(f"unknown result format {cut(repr(tool))}{nearest(tool, FORMATS)}")
    document = read_document(path)
    found = FORMATS[tool or _detected(document)]
    if tool is not None and not found.fits(document):
        raise InputError(f"{path}: is no result of {tool}: looked for {found.sought}")
    run = _chosen(path, found.runs(document), part)
    if not any(run.statistics(name) for name in ("ttft_ms", "e2e_latency_ms", "tpot_ms")):
        raise InputError(f"{path}: no request completed: there are no latencies")
    return run


def _detected(document: Document) -> str:
    name = next((name for name, item in FORMATS.items() if item.fits(document)), None)
    if name is None:
        sought = "; ".join(f"{name}: {item.sought}" for name, item in FORMATS.items())
        raise InputError(f"{document.path}: no known result file. Looked for {sought}")
    return name


def _chosen(path: Path, runs: list[MeasuredRun], part: int | None) -> MeasuredRun:
    """Choose one of the runs of a file."""
    if part is None and len(runs) == 1:
        return runs[0]
    listed = ", ".join(f"{number}: {run.label or 'unnamed'}" for number, run in enumerate(runs, start=1))
    if part is None:
        raise InputError(f"{path}: has {len(runs)} runs, say which ({listed})")
    if not 1 <= part <= len(runs):
        known = listed if len(runs) > 1 or runs[0].label else "it has one only"
        raise InputError(f"{path}: has no run {part}: {known}")
    return runs[part - 1]
