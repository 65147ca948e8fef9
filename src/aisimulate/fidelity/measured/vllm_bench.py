"""Results of `vllm bench serve --save-result` (and `--save-detailed`, `--append-result`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.fidelity.measured.flat_bench import Dialect, bench_runs

if TYPE_CHECKING:
    from aisimulate.fidelity.measured.document import Document
    from aisimulate.fidelity.measured.run import MeasuredRun

SOUGHT = "completed, total_output_tokens and mean_ttft_ms or mean_e2el_ms, and no mean_e2e_latency_ms"

_DIALECT = Dialect(
    tool="vllm",
    latencies={"ttft": "ttft_ms", "tpot": "tpot_ms", "itl": "itl_ms", "e2el": "e2e_latency_ms"},
    totals={
        "request_throughput": "request_throughput_rps",
        "request_goodput": "goodput_request_throughput_rps",
        "request_goodput:": "goodput_request_throughput_rps",  # as earlier versions spell it
        "output_throughput": "output_throughput_tok_s",
        "total_token_throughput": "total_throughput_tok_s",
        "completed": "completed_requests",
        "failed": "failed_requests",
    },
    load_fields=("request_rate", "max_concurrency"),
)


def fits(document: Document) -> bool:
    """Whether a file looks like one."""
    keys = document.first
    has_latency = "mean_ttft_ms" in keys or "mean_e2el_ms" in keys
    return (
        has_latency
        and "completed" in keys
        and "total_output_tokens" in keys
        and "mean_e2e_latency_ms" not in keys
    )


def runs(document: Document) -> list[MeasuredRun]:
    """Read the runs of a file. Raises InputError."""
    return bench_runs(document, _DIALECT)
