"""The figures of a trace on the terminal: plain aligned text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.report.numbers import number_text, share_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_COLUMNS = ("mean", "min", "p50", "p90", "p99", "max")
_ROWS = (
    ("input tokens", "input_tokens_per_request"),
    ("output tokens", "output_tokens_per_request"),
    ("turns per session", "turns_per_session"),
)
_LABEL, _CELL = 22, 12


def summary_text(summary: Mapping[str, Any]) -> str:
    """Lay out what `trace_summary` gives."""
    facts = [
        ("requests", f"{summary['requests']:,} in {summary['sessions']:,} sessions"),
        ("duration", _duration(summary["duration_s"])),
        ("rate", _rates(summary)),
        ("total", f"{summary['input_tokens']:,} input tokens, {summary['output_tokens']:,} output tokens"),
        ("ideal prefix reuse", _reuse(summary["ideal_prefix_hit_ratio"])),
    ]
    lines = [f"{label:<{_LABEL}}{text}" for label, text in facts]
    lines += ["", " " * _LABEL + "".join(f"{name:>{_CELL}}" for name in _COLUMNS)]
    for label, key in _ROWS:
        cells = "".join(f"{_cell(name, summary[key][name]):>{_CELL}}" for name in _COLUMNS)
        lines.append(f"{label:<{_LABEL}}{cells}")
    return "\n".join([*lines, ""])


def _cell(name: str, value: float) -> str:
    return f"{value:,.1f}" if name == "mean" else f"{value:,.0f}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "unknown (not every session has a time)"
    hours, minutes = divmod(seconds / 60.0, 60.0)
    text = f"{number_text(seconds)} s"
    return text if seconds < 120 else f"{text} ({hours:,.0f} h {minutes:.0f} min)"


def _rates(summary: Mapping[str, Any]) -> str:
    if summary["requests_per_s"] is None:
        return "unknown"
    names = ("requests", "input_tokens", "output_tokens")
    rates = [f"{number_text(summary[f'{name}_per_s'])} {name.replace('_', ' ')}/s" for name in names]
    return ", ".join(rates)


def _reuse(ratio: float | None) -> str:
    if ratio is None:
        return "unknown (the trace has no content ids)"
    return f"{share_text(ratio)} of the input tokens, if every block were kept for ever"


def counts_text(counts: Mapping[str, int]) -> str:
    """Say on one line how much there is of a trace."""
    return (
        f"{counts['requests']:,} requests in {counts['sessions']:,} sessions, "
        f"{counts['input_tokens']:,} input tokens, {counts['output_tokens']:,} output tokens"
    )
