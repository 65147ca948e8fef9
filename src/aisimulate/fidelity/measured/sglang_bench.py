"""Results of `python -m sglang.bench_serving --output-file` (and `--output-details`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.fidelity.measured.flat_bench import Dialect, bench_runs

if TYPE_CHECKING:
    from aisimulate.fidelity.measured.document import Document
    from aisimulate.fidelity.measured.run import MeasuredRun

SOUGHT = "completed, total_output_tokens and mean_e2e_latency_ms"

_DIALECT = Dialect(
    tool="sglang",
    latencies={"ttft": "ttft_ms", "tpot": "tpot_ms", "itl": "itl_ms", "e2e_latency": "e2e_latency_ms"},
    totals={
        "request_throughput": "request_throughput_rps",
        "input_throughput": "input_throughput_tok_s",
        "output_throughput": "output_throughput_tok_s",
        "total_throughput": "total_throughput_tok_s",
        "completed": "completed_requests",
    },
    load_fields=("request_rate", "max_concurrency"),
)


def fits(document: Document) -> bool:
    """Whether a file looks like one."""
    keys = document.first
    return all(name in keys for name in ("completed", "total_output_tokens", "mean_e2e_latency_ms"))


def runs(document: Document) -> list[MeasuredRun]:
    """Read the runs of a file. Raises InputError."""
    return bench_runs(document, _DIALECT)
