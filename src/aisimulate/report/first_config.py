"""A first search file for a user's model, GPUs, traffic and SLA, with comments that teach the next one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NOTE_COLUMN = 36
_MODES = {"agg": ["agg"], "disagg": ["disagg"], "both": ["agg", "disagg"]}
GOALS = {
    "goodput_per_gpu": "most output tokens per second and GPU, counting only requests within the SLA",
    "goodput": "most output tokens per second, counting only requests within the SLA",
    "throughput_per_gpu": "most output tokens per second and GPU",
    "throughput": "most output tokens per second",
    "throughput_per_user": "fastest answers",
    "e2e_latency": "shortest requests",
    "pareto": "the trade-off between tokens per GPU and speed per user",
}


@dataclass(frozen=True, slots=True)
class FirstConfig:
    """The answers of `init`; `traffic` are fields of `workload`, `sla` bounds in ms, `goal` one of `GOALS`.

    `context_length` is in tokens, None for the model's own. `single_gpu_moe`: try one-GPU workers of a
    mixture of experts.
    """

    model: str
    gpu: str
    gpus: int
    goal: str
    backends: tuple[str, ...] = ("vllm",)
    mode: str = "both"
    traffic: Mapping[str, Any] = field(default_factory=dict)
    sla: Mapping[str, float] = field(default_factory=dict)
    context_length: int | None = None
    single_gpu_moe: bool = False


def first_config_text(answers: FirstConfig) -> str:
    """Write the file."""
    modes = _MODES[answers.mode]
    lines = [
        "# What may be deployed. Lists are searched; a list of one pins the choice.",
        "# docs/configuration.md describes every field.",
        "search_space:",
        f"  model_name: {_text(answers.model)}",
        f"  hardware_sku: {_text(answers.gpu)}",
        _noted(f"  gpu_budget: {answers.gpus}", "most GPUs of a candidate"),
        *_context_lines(answers.context_length),
        *_single_gpu_lines(answers.single_gpu_moe),
        _noted(f"  deployment_mode: {_list(modes)}", "agg: whole workers; disagg: prefill and decode pools"),
        _noted(f"  backend: {_list(answers.backends)}", "of vllm, sglang, trtllm"),
        _noted("  router_mode: [round_robin]", "add kv_router to place requests by cached prefixes"),
        _noted(
            "  planner_scaling_policy: [disabled]", "add load_180_5, throughput_180_5 ... to scale the pools"
        ),
        "",
        *_traffic_lines(answers.traffic),
        "",
        *_goal_lines(answers),
        "",
        "# How long to search: at most max_rounds x candidates_per_round replays per deployment mode.",
        "sweep:",
        "  max_rounds: 6",
        "  candidates_per_round: 16",
        "",
    ]
    return "\n".join(lines)


def _context_lines(context_length: int | None) -> list[str]:
    if context_length is None:
        return [_noted("  # context_length: 16384", "longest sequence to serve (default: the model's own)")]
    return [_noted(f"  context_length: {context_length}", "longest sequence to serve, in tokens")]


def _single_gpu_lines(single_gpu_moe: bool) -> list[str]:
    if not single_gpu_moe:
        return []
    return [
        _noted("  include_single_gpu_moe: true", "the experts fit one GPU: try such workers (off by default)")
    ]


def _traffic_lines(traffic: Mapping[str, Any]) -> list[str]:
    if "trace_path" in traffic:
        comment = "# The traffic: a trace, replayed at its own times (docs/traces.md has the formats)."
    else:
        comment = "# The traffic: synthetic requests of equal lengths, in tokens."
    notes = {
        "request_rate": "requests per second",
        "concurrency": "requests in flight",
        "kv_load_ratio": "0: one request in flight; 1: the KV cache is full; a range is searched",
        "num_request_ratio": "requests to send = this x the load",
        "replay_concurrency": "requests in flight; the times of the trace are ignored",
    }
    lines = [comment, "workload:"]
    for name, value in traffic.items():
        lines.append(_noted(f"  {name}: {_value(value)}", notes.get(name)))
    return lines


def _goal_lines(answers: FirstConfig) -> list[str]:
    lines = [f"# The goal: {GOALS[answers.goal]}.", "goal:", f"  target: {answers.goal}"]
    if answers.sla:
        lines.append(_noted("  sla:", "ms; itl_ms bounds the mean time between the tokens of a request"))
        lines += [f"    {name}: {_number(value)}" for name, value in answers.sla.items()]
    return lines


def _noted(line: str, note: str | None) -> str:
    """Add a comment to a line, in a column of its own."""
    return line if note is None else f"{line:<{_NOTE_COLUMN}}  # {note}"


def _value(value: object) -> str:
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _number(value: float) -> str:
    """Write a number as it was given: every digit, and a whole one without a point."""
    return str(int(value)) if value.is_integer() else json.dumps(value)


def _text(value: str) -> str:
    """Write a text as YAML: JSON's quoting is YAML's."""
    return json.dumps(value, ensure_ascii=False)


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(values)}]"
