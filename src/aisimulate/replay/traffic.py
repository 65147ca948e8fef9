"""From the traffic half of a payload to the workload of one replay (spec 02 section 1.5)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from aisimulate.config.base import COUNT_MAX, U32_MAX, FieldError
from aisimulate.config.traffic import DEFAULT_ARRIVAL_SEED
from aisimulate.config.traffic_rules import arrival_rate, check_kv_ratio, check_requests, relative_load
from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session, Workload
from aisimulate.core.units import round_half_away
from aisimulate.replay.agentic_traffic import agentic_workload, require_no_lanes, timed_trace
from aisimulate.workload.formats import load_trace
from aisimulate.workload.inline import CONTENT_BLOCK_TOKENS, InlineRequest, inline_sessions
from aisimulate.workload.sessions import normalise_starts, speed_up
from aisimulate.workload.synthetic import (
    Arrivals,
    Burst,
    ConstantRate,
    Poisson,
    TooSlow,
    sharing_notes,
    synthetic_sessions,
)
from aisimulate.workload.time_doubts import time_doubts
from aisimulate.workload.weka_basis import AUTO

if TYPE_CHECKING:
    from aisimulate.config.rank import RankConfig
    from aisimulate.config.spec import ReplayRequest, ReplaySpec
    from aisimulate.config.traffic import RuntimeTraffic
    from aisimulate.workload.loaded import LoadedTrace

_CONTENT_SEED = 0

# A trace file as it was when it was read: path, mtime in ns, size in bytes.
_File = tuple[Path, int, int]


def build_workload(
    traffic: RuntimeTraffic, engine_block_tokens: int, max_in_flight: int | None = None
) -> Workload:
    """Load or draw the traffic of one replay.

    `engine_block_tokens` is the KV block size of the (prefill) rank. `max_in_flight` is the spec's cap; it
    holds where the traffic has none. A KV load must be resolved into `traffic.concurrency` before.
    Raises `InputError`, one line with file and line or field.
    """
    if engine_block_tokens < 1:
        raise InputError(f"engine block size must be positive, got {engine_block_tokens}")
    if traffic.source_type == "trace":
        return _trace_workload(traffic, max_in_flight)
    return _synthetic_workload(traffic, engine_block_tokens, max_in_flight)


def inline_workload(spec: ReplaySpec) -> Workload:
    """Turn the requests authored in the spec into a workload, closed loop when `max_in_flight` is set."""
    dp_size = min(spec.engine.role(stage).dp_size for stage in spec.stages)
    try:
        sessions = inline_sessions([_inline_request(request) for request in spec.requests], dp_size)
    except InputError as error:
        raise InputError(f"spec.{error}") from None
    return Workload(sessions, CONTENT_BLOCK_TOKENS, concurrency=spec.max_in_flight)


def resolve_kv_capacity(traffic: RuntimeTraffic, rank: RankConfig, dp_size: int, replicas: int) -> int | None:
    """Concurrency that fills a share of the KV capacity, or None for another load.

    A request counts as its prompt and half of its output. `rank` is the aggregated or decode rank with
    its capacity filled in; `replicas` the workers of that pool. Raises `InputError` when not even one
    request fits.
    """
    if traffic.source_type == "trace" or traffic.load != "kv_capacity_fraction":
        return None
    ratio = _kv_ratio(traffic)
    if traffic.isl is None or traffic.osl is None:
        raise InputError("traffic.isl: KV load requires isl and osl")
    expected_tokens = traffic.isl + traffic.osl // 2
    total_tokens = rank.num_gpu_blocks * rank.block_size * dp_size * replicas
    if total_tokens > COUNT_MAX:
        raise InputError(f"aggregate KV capacity overflow: {total_tokens} tokens")
    capacity = total_tokens // expected_tokens
    if capacity < 1:
        raise InputError(
            f"candidate KV capacity cannot hold one request: {total_tokens} tokens, {expected_tokens} needed"
        )
    concurrency = ratio * capacity
    if not concurrency <= U32_MAX:
        raise InputError(f"traffic.kv_load_ratio: gives {concurrency:g}, which is not <= {U32_MAX}")
    return max(1, math.floor(concurrency))


def session_count(traffic: RuntimeTraffic) -> int:
    """Sessions of a synthetic load: `request_count`, or the relative stop times the load.

    The load is the cap, else the request rate, else 1000 / interval; the product is rounded half away from
    zero, and is at least 1. Raises `InputError` when neither is given, or when there would be too many.
    """
    if traffic.request_count is not None:
        return traffic.request_count
    if traffic.num_request_ratio is None:
        raise InputError(
            "traffic.request_count: synthetic traffic requires request_count or num_request_ratio"
        )
    load = relative_load(traffic)
    if load is None:
        raise InputError("traffic.num_request_ratio: relative synthetic stop requires a concrete load")
    sessions = traffic.num_request_ratio * load
    with _field_errors():
        # Again, because a KV load is known only now.
        check_requests("num_request_ratio", sessions, traffic.turns)
    return max(1, round_half_away(sessions))


@contextmanager
def _field_errors() -> Iterator[None]:
    """Say where the field of a `FieldError` stands."""
    try:
        yield
    except FieldError as error:
        raise InputError(f"traffic.{error.field}: {error}") from None


def _kv_ratio(traffic: RuntimeTraffic) -> float:
    with _field_errors():
        return check_kv_ratio(traffic.kv_load_ratio)


# Traces -----------------------------------------------------------------------------------------------


def _trace_workload(traffic: RuntimeTraffic, max_in_flight: int | None) -> Workload:
    ratio = traffic.arrival_speedup_ratio or 1.0
    cap = max_in_flight if traffic.replay_concurrency is None else traffic.replay_concurrency
    trace = _trace(traffic, ratio)
    if trace.graph is not None:
        return agentic_workload(traffic, trace, trace.graph, max_in_flight)
    require_no_lanes(traffic)
    sessions = trace.sessions
    if cap is None:
        require_first_timestamps(trace)
    if cap is not None and ratio != 1.0 and not _has_think_time(sessions):
        raise InputError(
            f"traffic.arrival_speedup_ratio: {ratio:g} has no effect with a concurrency cap: "
            "arrivals are ignored, and no turn of this trace has a delay"
        )
    notes = trace.remarks + (trace.time_doubts if cap is None else [])
    return Workload(
        sessions, trace.block_tokens, accumulate=traffic.accumulates, concurrency=cap, notes=notes
    )


def require_first_timestamps(trace: LoadedTrace) -> None:
    """Refuse, by file and line, a session that an open-loop replay could not start."""
    if trace.untimed is not None:
        raise InputError(
            f"{trace.untimed} has no first timestamp: an open-loop replay needs one for every session "
            "(or set replay_concurrency)"
        )


def _has_think_time(sessions: Sequence[Session]) -> bool:
    return any(turn.delay_ms > 0 for session in sessions if len(session.turns) > 1 for turn in session.turns)


def _trace(traffic: RuntimeTraffic, ratio: float) -> LoadedTrace:
    paths = [Path(path) for path in traffic.paths]
    basis = traffic.weka_nested_timestamp_basis or AUTO
    try:
        files = tuple(_file(path) for path in paths)
    except (OSError, ValueError):
        # The reader says what is wrong with the file.
        return load_trace(paths, traffic.format, traffic.trace_block_size, basis)
    return _timed_trace(files, _Reading(traffic.format, traffic.trace_block_size, basis), ratio)


def _file(path: Path) -> _File:
    status = path.stat()
    if not path.is_dir():
        return path.absolute(), status.st_mtime_ns, status.st_size
    # A change of a file inside does not change the folder.
    inside = [file.stat() for file in path.rglob("*")]
    newest_ns = max((file.st_mtime_ns for file in inside), default=0)
    return path.absolute(), max(status.st_mtime_ns, newest_ns), sum(file.st_size for file in inside)


class _Reading(NamedTuple):
    """How the files of a trace are read."""

    trace_format: str
    block_tokens: int | None
    nested_basis: str


@lru_cache(maxsize=4)
def _timed_trace(files: tuple[_File, ...], reading: _Reading, ratio: float) -> LoadedTrace:
    """Start the trace at 0 ms and compress its time; shared between replays, so never to be changed."""
    trace = _loaded_trace(files, reading)
    if trace.graph is not None:
        return timed_trace(trace, trace.graph, ratio)
    sessions = speed_up(normalise_starts(trace.sessions), ratio)
    doubts = time_doubts(trace.sessions, reading.trace_format, ratio)
    return replace(trace, sessions=sessions, time_doubts=doubts)


@lru_cache(maxsize=4)
def _loaded_trace(files: tuple[_File, ...], reading: _Reading) -> LoadedTrace:
    return load_trace([path for path, _, _ in files], *reading)


# Synthetic load ---------------------------------------------------------------------------------------


def _synthetic_workload(traffic: RuntimeTraffic, block_tokens: int, max_in_flight: int | None) -> Workload:
    if traffic.load == "kv_capacity_fraction" and traffic.concurrency is None:
        raise InputError("traffic.kv_load_ratio: the KV load was not resolved into a concurrency")
    if traffic.isl is None or traffic.osl is None:
        raise InputError("traffic.isl: synthetic traffic requires isl and osl")
    cap = max_in_flight if traffic.concurrency is None else traffic.concurrency
    ratio, groups = traffic.shared_prefix_ratio or 0.0, traffic.num_prefix_groups or 0
    try:
        sessions = synthetic_sessions(
            isl=traffic.isl,
            osl=traffic.osl,
            sessions=session_count(traffic),
            turns=traffic.turns,
            shared_prefix_ratio=ratio,
            num_prefix_groups=groups,
            inter_turn_delay_ms=traffic.inter_turn_delay_ms or 0.0,
            arrivals=_arrivals(traffic, cap),
            block_tokens=block_tokens,
            content_seed=_CONTENT_SEED,
            arrival_seed=DEFAULT_ARRIVAL_SEED if traffic.arrival_seed is None else traffic.arrival_seed,
        )
    except TooSlow as error:
        raise InputError(f"traffic.{_rate_field(traffic)}: {error}") from None
    notes = sharing_notes(ratio, groups) + _cap_notes(traffic, cap)
    return Workload(sessions, block_tokens, accumulate=traffic.accumulates, concurrency=cap, notes=notes)


def _arrivals(traffic: RuntimeTraffic, cap: int | None) -> Arrivals:
    """A cap paces the load by itself, whatever the load type (spec 02 section 1.5)."""
    rate = arrival_rate(traffic)
    if cap is not None or traffic.load not in ("poisson", "constant_rate"):
        return Burst()
    if rate is None or not math.isfinite(rate):
        raise InputError(f"traffic.{_rate_field(traffic)}: {traffic.load} traffic requires a positive rate")
    return Poisson(rate) if traffic.load == "poisson" else ConstantRate(rate)


def _rate_field(traffic: RuntimeTraffic) -> str:
    return "arrival_interval_ms" if traffic.request_rate is None else "request_rate"


def _cap_notes(traffic: RuntimeTraffic, cap: int | None) -> list[str]:
    if cap is None or traffic.load not in ("poisson", "constant_rate"):
        return []
    return [f"the concurrency cap {cap} paces the load: load_type {traffic.load!r} has no effect"]


def _inline_request(request: ReplayRequest) -> InlineRequest:
    return InlineRequest(
        request_id=request.id,
        arrival_ms=request.arrival_time_ms,
        input_tokens=request.input_tokens,
        output_tokens=request.output_tokens,
        input_ids=None if request.input_token_ids is None else list(request.input_token_ids),
        output_ids=None if request.output_token_ids is None else list(request.output_token_ids),
        dp_rank=request.dp_rank,
        session_id=request.session_id,
        turn_index=request.turn_index,
        metadata=request.metadata,
    )
