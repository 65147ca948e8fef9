"""The report of one replay on the terminal (spec 02 section 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.report.calibration import applied_text
from aisimulate.report.columns import aligned
from aisimulate.report.numbers import share_text
from aisimulate.spica.versions import program_versions

if TYPE_CHECKING:
    from collections.abc import Mapping

Report = dict[str, Any]

_STATISTICS = ("mean", "min", "max", "p99", "p90", "p75", "std")
_COLUMNS = ("Metric", "avg", "min", "max", "p99", "p90", "p75", "std")
_METRICS = (
    ("Time to first token (ms)", "ttft_ms"),
    ("Time to second token (ms)", "ttst_ms"),
    ("Inter-token latency per request (ms)", "tpot_ms"),
    ("Inter-token latency per gap (ms)", "itl_ms"),
    ("Request latency (ms)", "e2e_latency_ms"),
    ("Output per user (tokens/s)", "output_token_throughput_per_user"),
)
_TOTALS = (
    ("Output throughput (tokens/s)", "output_throughput_tok_s"),
    ("Request throughput (1/s)", "request_throughput_rps"),
    ("Goodput (requests/s)", "goodput_request_throughput_rps"),
    ("Goodput (tokens/s)", "goodput_output_throughput_tok_s"),
    ("Completed requests", "completed_requests"),
    ("Good requests", "goodput_completed_requests"),
)
_ENGINE_METRICS = frozenset({"itl_ms", "output_token_throughput_per_user"})
"""Of gaps between tokens in the engine, whatever a front end makes of them (docs/front-end.md)."""

_MISSING = "N/A"


def replay_text(report: Mapping[str, Any]) -> str:
    """Lay out the metrics of a replay, then how much was replayed and how much of it was cached."""
    rows = [_COLUMNS, *_metric_rows(report), *_total_rows(report)]
    titles, *lines = aligned(rows, to_right=range(1, len(_COLUMNS)))
    return "\n".join([titles, "-" * len(titles), *lines, "", *_remarks(report), ""])


def _metric_rows(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    if not report["completed_requests"]:
        return [(title, *(_MISSING,) * len(_STATISTICS)) for title, _ in _METRICS]
    marked = _ENGINE_METRICS if "frontend" in report else frozenset()
    return [
        (
            f"{title} [engine]" if key in marked else title,
            *(f"{report[f'{statistic}_{key}']:,.2f}" for statistic in _STATISTICS),
        )
        for title, key in _METRICS
    ]


def _total_rows(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rest = (_MISSING,) * (len(_STATISTICS) - 1)
    return [(title, _number(report[key]), *rest) for title, key in _TOTALS if key in report]


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _remarks(report: Mapping[str, Any]) -> list[str]:
    rejected, unfinished = report["rejected_requests"], report["unfinished_requests"]
    lines = [
        f"{report['num_requests']:,} requests arrived, {rejected:,} rejected, {unfinished:,} unfinished",
        f"{report['duration_ms'] / 1000:,.3f} s simulated in {report['wall_time_ms'] / 1000:,.3f} s, "
        f"{report['gpu_hours']:,.4g} GPU hours",
        f"prompt tokens found in the cache: {share_text(report['prefix_cache_reused_ratio'])} "
        f"({share_text(report['first_admission_prefix_cache_reused_ratio'])} by first admissions)",
    ]
    if "planner_total_ticks" in report:
        lines.append(
            f"scaling: {report['planner_total_ticks']:,} decisions, {report['avg_gpu']:,.4g} GPUs on average"
        )
    if "frontend" in report:
        lines.append(
            "latencies and rates are as clients see them, those marked [engine] as the engine has them"
        )
    for reason, count in report["rejection_reasons"].items():
        lines.append(f"rejected: {count:,} because {reason}")
    lines += _nothing_measured(report)
    notes = [*report.get("notes", ()), *_advisories(report.get("provenance", {}))]
    lines += [f"note: {note}" for note in notes]
    return [*lines, *_calibrations(report.get("provenance", {})), *_confidence(report), _evidence(report)]


def _nothing_measured(report: Mapping[str, Any]) -> list[str]:
    """Say why there are no latencies where no request completed."""
    arrived = report["num_requests"]
    if report["completed_requests"] or not arrived:
        return []
    if report["rejected_requests"] < arrived:
        return ["note: no request completed: there is nothing to measure"]
    reasons = ", ".join(report["rejection_reasons"])
    why = f" ({reasons})" if reasons else ""
    return [f"note: all {arrived:,} requests were rejected{why}: there is nothing to measure"]


def _confidence(report: Mapping[str, Any]) -> list[str]:
    """Say how far the data can be trusted, where somebody looked and anything was measured."""
    found = report.get("confidence")
    if found is None or not report["completed_requests"]:
        return []
    reasons = "; ".join(found["reasons"])
    return [f"confidence in the data: {found['grade']}" + (f" ({reasons})" if reasons else "")]


def _calibrations(provenance: Mapping[str, Any]) -> list[str]:
    """Say what pass times were corrected by, each calibration once."""
    found = (pool["calibration"] for pool in _pools(provenance) if "calibration" in pool)
    return list(dict.fromkeys(map(applied_text, found)))


def _evidence(report: Mapping[str, Any]) -> str:
    """Say on one line what the numbers were made with."""
    programs = ", ".join(f"{name} {version}" for name, version in sorted(program_versions().items()))
    pools = dict.fromkeys(map(_pool_text, _pools(report.get("provenance", {}))))
    times = "; ".join(text for text in pools if text)
    parts = [f"evidence: simulated with {programs}", times, f"{report['timing_mode']} pass times"]
    if report.get("scheduling_look_ahead"):
        parts.append("passes planned one ahead")
    if "frontend" in report:
        parts.append(f"as clients see it: {_frontend(report['frontend'])}")
    return "; ".join(part for part in parts if part)


def _frontend(frontend: Mapping[str, Any]) -> str:
    preset = "" if frontend["preset"] is None else f"{frontend['preset']}, "
    overhead_ms = frontend["step_overhead_ms"]
    overhead = f", {overhead_ms:g} ms more per pass" if overhead_ms else ""
    return (
        f"{preset}stream interval {frontend['stream_interval']}, offset {frontend['ttft_offset_ms']:g} ms, "
        f"receive interval {frontend['receive_interval']}{overhead}"
    )


def _pool_text(pool: Mapping[str, Any]) -> str:
    if "timing" not in pool:
        return ""
    version = f" {pool['backend_version']}" if "backend_version" in pool else ""
    blocks = f"{pool['num_gpu_blocks']:,} KV blocks {pool['num_gpu_blocks_source']}"
    return f"times: {pool['timing']}{version}, {blocks}"


def _pools(provenance: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [provenance, *(provenance.get(role, {}) for role in ("prefill", "decode"))]


def _advisories(provenance: Mapping[str, Any]) -> list[str]:
    """Find what must be known of the data of a pool, or of a pair of pools; each once."""
    return list(dict.fromkeys(note for pool in _pools(provenance) for note in pool.get("advisories", ())))
