"""Which traffic settings a source and load need, and which cannot act on them (spec 02 section 1.5)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aisimulate.config.base import FieldError
from aisimulate.config.messages import show
from aisimulate.core.limits import MAX_REQUESTS

if TYPE_CHECKING:
    from aisimulate.config.traffic import RuntimeTraffic

_TRACE_ONLY = (
    "trace_path",
    "trace_paths",
    "trace_format",
    "trace_block_size",
    "arrival_speedup_ratio",
    "replay_concurrency",
    "agentic_lanes",
    "weka_nested_timestamp_basis",
)
_SYNTHETIC_ONLY = (
    "load_type",
    "isl",
    "osl",
    "request_count",
    "num_request_ratio",
    "turns_per_session",
    "shared_prefix_ratio",
    "num_prefix_groups",
    "inter_turn_delay_ms",
    "request_rate",
    "arrival_interval_ms",
    "arrival_seed",
    "concurrency",
    "kv_load_ratio",
)
# Formats whose traces are, or may be, agentic.
_AGENTIC_FORMATS = ("agentic_mooncake", "dynamo", "weka")
# Values that ask for nothing, so that a payload may spell out defaults everywhere.
_NEUTRAL: dict[str, Any] = {
    "trace_paths": (),
    "trace_format": "mooncake",
    "trace_block_size": 512,
    "weka_nested_timestamp_basis": "auto",
    "arrival_speedup_ratio": 1,
    "load_type": "concurrency",
    "turns_per_session": 1,
    "shared_prefix_ratio": 0,
    "num_prefix_groups": 0,
    "inter_turn_delay_ms": 0,
    "arrival_seed": 42,
}

# (field, what it has no effect on, who uses it)
Inert = tuple[str, str, str]


def check_required(traffic: RuntimeTraffic) -> None:
    """Raise `FieldError` when the source or load lacks a setting it needs."""
    if traffic.source_type == "trace":
        if not traffic.paths:
            raise FieldError("trace_path", "trace traffic requires at least one path")
        _check_paths(traffic)
        return
    for name in ("isl", "osl"):
        if getattr(traffic, name) is None:
            raise FieldError(name, f"synthetic traffic requires {name}")
    _require_count(traffic)
    _require_load(traffic)


def _check_paths(traffic: RuntimeTraffic) -> None:
    named: list[tuple[str, str | None]] = [
        (f"trace_paths[{index}]", path) for index, path in enumerate(traffic.trace_paths)
    ]
    for field, path in named or [("trace_path", traffic.trace_path)]:
        if not path:
            raise FieldError(field, "'' is empty")


def _require_count(traffic: RuntimeTraffic) -> None:
    if traffic.request_count is not None:
        check_requests("request_count", traffic.request_count, traffic.turns)
        return
    if traffic.num_request_ratio is None:
        raise FieldError("request_count", "synthetic traffic requires request_count or num_request_ratio")
    loads = (traffic.concurrency, traffic.request_rate, traffic.arrival_interval_ms)
    if traffic.load != "kv_capacity_fraction" and all(load is None for load in loads):
        raise FieldError("num_request_ratio", "relative synthetic stop requires a concrete load")
    load = relative_load(traffic)
    if load is not None:
        check_requests("num_request_ratio", traffic.num_request_ratio * load, traffic.turns)


def relative_load(traffic: RuntimeTraffic) -> float | None:
    """Load that a relative stop multiplies: the cap, else requests per second, None when neither is known."""
    return arrival_rate(traffic) if traffic.concurrency is None else traffic.concurrency


def arrival_rate(traffic: RuntimeTraffic) -> float | None:
    """Requests per second, as such or from the interval."""
    if traffic.request_rate is not None:
        return traffic.request_rate
    return None if traffic.arrival_interval_ms is None else 1000.0 / traffic.arrival_interval_ms


def check_requests(field: str, sessions: float, turns: int) -> None:
    """Raise `FieldError` when there are too many sessions of so many turns."""
    if not sessions * turns <= MAX_REQUESTS:
        times = f" x {turns} turns" if turns > 1 else ""
        raise FieldError(field, f"gives {sessions:.15g} sessions{times}, which is not <= {MAX_REQUESTS}")


def _require_load(traffic: RuntimeTraffic) -> None:
    if traffic.load == "poisson" and traffic.request_rate is None:
        raise FieldError("request_rate", "poisson traffic requires request_rate")
    rates = (traffic.request_rate, traffic.arrival_interval_ms)
    if traffic.load == "constant_rate" and rates == (None, None):
        raise FieldError("request_rate", "constant_rate traffic requires an interval or rate")
    if traffic.load == "kv_capacity_fraction":
        check_kv_ratio(traffic.kv_load_ratio)


def check_kv_ratio(ratio: object) -> float:
    """Return the one concrete KV load ratio (a positive number); raise `FieldError` otherwise."""
    if isinstance(ratio, bool) or not isinstance(ratio, int | float):
        problem = f"kv_capacity_fraction requires one concrete ratio, got {show(ratio)}"
        raise FieldError("kv_load_ratio", problem)
    if not 0 < ratio < math.inf:
        raise FieldError("kv_load_ratio", f"KV load ratio must be positive, got {show(ratio)}")
    return float(ratio)


def check_inert(traffic: RuntimeTraffic) -> None:
    """Raise `FieldError` for a setting that was given but cannot act on the chosen source and load."""
    for name, where, users in _inert(traffic):
        value = getattr(traffic, name)
        if value is not None and value != _NEUTRAL.get(name):
            raise FieldError(name, f"{show(value)} has no effect {where} (used by {users})")


def _inert(traffic: RuntimeTraffic) -> Iterator[Inert]:
    source = f"with source_type {traffic.source_type!r}"
    if traffic.source_type == "trace":
        users = "source_type 'synthetic' and 'synthetic-session'"
        yield from ((name, source, users) for name in _SYNTHETIC_ONLY)
        if traffic.trace_paths and traffic.trace_path not in traffic.trace_paths:
            yield "trace_path", "beside trace_paths", "a payload without trace_paths"
        yield from _inert_agents(traffic)
        return
    yield from ((name, source, "source_type 'trace'") for name in _TRACE_ONLY)
    yield from _inert_sessions(traffic)
    yield from _inert_arrivals(traffic)
    yield from _inert_stop(traffic)


def _inert_agents(traffic: RuntimeTraffic) -> Iterator[Inert]:
    where = f"with trace_format {traffic.format!r}"
    if traffic.format not in _AGENTIC_FORMATS:
        yield "agentic_lanes", where, "agentic traces"
    if traffic.format != "weka":
        yield "weka_nested_timestamp_basis", where, "trace_format 'weka'"


def _inert_sessions(traffic: RuntimeTraffic) -> Iterator[Inert]:
    if traffic.source_type == "synthetic":
        yield "turns_per_session", "with source_type 'synthetic'", "source_type 'synthetic-session'"
    if traffic.turns == 1:
        yield "inter_turn_delay_ms", "on sessions of one turn", "source_type 'synthetic-session'"


def _inert_arrivals(traffic: RuntimeTraffic) -> Iterator[Inert]:
    where = f"with load_type {traffic.load!r}"
    if traffic.load != "poisson":
        yield "arrival_seed", where, "load_type 'poisson'"
    if traffic.load != "kv_capacity_fraction":
        yield "kv_load_ratio", where, "load_type 'kv_capacity_fraction'"
    else:
        yield "concurrency", where, "load_type 'concurrency'"
    rate_acts = traffic.load in ("poisson", "constant_rate") or _stop_needs_rate(traffic)
    if not rate_acts:
        yield "request_rate", where, "load_type 'poisson' and 'constant_rate'"
    if traffic.load == "poisson" or not rate_acts:
        yield "arrival_interval_ms", where, "load_type 'constant_rate'"
    elif traffic.request_rate is not None:
        yield from _inert_interval(traffic.request_rate, traffic.arrival_interval_ms)


def _inert_interval(rate: float, interval_ms: float | None) -> Iterator[Inert]:
    # Both may be given when they say the same.
    if interval_ms is not None and not math.isclose(1000 / interval_ms, rate, rel_tol=1e-9):
        yield "arrival_interval_ms", f"beside request_rate {rate:g}", "a payload without request_rate"


def _stop_needs_rate(traffic: RuntimeTraffic) -> bool:
    """Whether a relative stop counts requests by the rate, because there is no cap to count by."""
    relative = traffic.request_count is None and traffic.num_request_ratio is not None
    return relative and traffic.load == "concurrency" and traffic.concurrency is None


def _inert_stop(traffic: RuntimeTraffic) -> Iterator[Inert]:
    if traffic.request_count is not None:
        yield "num_request_ratio", "beside request_count", "a payload without request_count"
