"""`Workload`: the traffic a sweep replays, in exactly one of four load shapes (spec 05 section 1.6)."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Annotated

from pydantic import AfterValidator, PlainValidator, model_validator

from aisimulate.config.frontend import FrontendConfig
from aisimulate.core.errors import nearest
from aisimulate.core.shown import show_python
from aisimulate.core.units import round_half_away
from aisimulate.spica.field_types import (
    CountInt,
    Integer,
    Length,
    NaturalInt,
    NaturalNumber,
    PayloadTokens,
    PositiveInt,
    PositiveNumber,
    Ratio,
    SpicaModel,
    Text,
)
from aisimulate.spica.limits import check_request_limits
from aisimulate.workload.formats import SIZED_FORMATS, TRACE_FORMATS

LOAD_FIELDS = ("request_rate", "concurrency", "kv_load_ratio")
LENGTH_FIELDS = ("isl", "osl", "num_request_ratio")
SESSION_FIELDS = ("shared_prefix_ratio", "num_prefix_groups", "turns_per_session", "inter_turn_delay_ms")
TRACE_ONLY_FIELDS = ("trace_format", "trace_block_size", "arrival_speedup_ratio")


def _check_format(value: str) -> str:
    if value not in TRACE_FORMATS:
        legal = f"allowed: {list(TRACE_FORMATS)}{nearest(value, TRACE_FORMATS)}"
        raise ValueError(f"unknown trace_format {show_python(value)}; {legal}")
    return value


def _check_cap(value: int) -> int:
    if value <= 0:
        raise ValueError(f"replay_concurrency must be a positive integer, got {value}")
    return value


def _parse_kv_load(value: object) -> float | list[float] | None:
    """Take None, one ratio, or `[min, max]`; ratios above 1 ask for oversubscription."""
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        return _load_ratio(value)
    if len(value) != 2:
        raise ValueError(f"a ranged kv_load_ratio must be [min, max], got {len(value)} values")
    low, high = _load_ratio(value[0]), _load_ratio(value[1])
    if low >= high:
        raise ValueError(f"a ranged kv_load_ratio needs min < max, got {[low, high]}")
    return [low, high]


def _load_ratio(value: object) -> float:
    ratio = math.nan
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            ratio = float(value)
    if not math.isfinite(ratio) or ratio < 0:
        raise ValueError(f"kv_load_ratio must be a finite number >= 0, got {show_python(value)}")
    return ratio


class Workload(SpicaModel):
    """The traffic: a trace (open loop or capped), a request rate, a concurrency, or a relative KV load.

    Lengths in tokens, rates in requests (sessions) per second, delays in ms.
    """

    isl: Length | None = None
    """new prompt tokens of each request (each turn) :unit: tokens :rule: below the context length"""
    osl: Length | None = None
    """output tokens of each request :unit: tokens"""
    concurrency: PositiveInt | None = None
    """closed loop: the next session starts when one ends :unit: sessions"""
    kv_load_ratio: Annotated[float | list[float] | None, PlainValidator(_parse_kv_load)] = None
    """concurrency relative to each candidate's own KV cache: 1 fills it with requests of isl + osl/2 tokens
    :unit: share :rule: >= 0; a range only for the pareto target, which takes `[0.0, 1.0]` without a load"""
    request_rate: PositiveNumber | None = None
    """open loop: arrivals are evenly spaced, one every 1000 / rate ms :unit: sessions/s"""
    num_request_ratio: PositiveNumber | None = None
    """how many sessions: the ratio times the load (concurrency, or rate), rounded half away from zero, at
    least 1. With a rate it is the seconds of traffic; with a concurrency the rounds through it"""
    shared_prefix_ratio: Ratio = 0.0
    """share of each prompt that is common to a group :unit: share :rule: above 0 needs `num_prefix_groups`"""
    num_prefix_groups: NaturalInt = 0
    """number of common prefixes; sessions draw one each :unit: groups"""
    turns_per_session: CountInt = 1
    """requests per session; the prompt of each turn is the whole conversation so far and `isl` new tokens
    :unit: turns"""
    inter_turn_delay_ms: NaturalNumber = 0.0
    """pause between the end of a turn and the next"""
    trace_path: Text | None = None
    """the trace to replay; a relative path is taken from the current directory :rule: a file that can be
    read"""
    trace_format: Annotated[str, AfterValidator(_check_format)] = "mooncake"
    """how to read it ([the formats](traces.md)) :rule: a known format"""
    trace_block_size: PayloadTokens = 512
    """tokens that one id in `hash_ids` stands for; formats that say it themselves need none :rule: must
    equal what the trace says itself, and be 512 or unset where the format has no ids"""
    arrival_speedup_ratio: PositiveNumber = 1.0
    """divides times of arrival and pauses :rule: not beside `replay_concurrency`"""
    replay_concurrency: Annotated[Integer, AfterValidator(_check_cap)] | None = None
    """closed loop: ignore the trace's arrival times and keep this many sessions running. Without it every
    session needs a first timestamp :unit: sessions :rule: > 0"""
    frontend: FrontendConfig | None = None
    """what clients see of it; latencies and goals are those of clients then :rule: as
    [spec.frontend](#specfrontend)"""

    @model_validator(mode="after")
    def _check_shape(self) -> Workload:
        if self.is_trace_based:
            self._check_trace()
        else:
            self._check_synthetic()
        return self

    def _check_trace(self) -> None:
        offenders = self._changed(LENGTH_FIELDS + LOAD_FIELDS + SESSION_FIELDS)
        if offenders:
            raise ValueError(f"a trace workload must not set synthetic fields: {', '.join(offenders)}")
        if self.replay_concurrency is not None and self._changed(("arrival_speedup_ratio",)):
            raise ValueError(
                "arrival_speedup_ratio has no effect with replay_concurrency: "
                "a capped trace ignores timestamps"
            )

    def _check_synthetic(self) -> None:
        if self.replay_concurrency is not None:
            raise ValueError(
                f"replay_concurrency ({self.replay_concurrency}) is only for trace workloads; "
                "use concurrency for synthetic traffic"
            )
        loads = self._changed(LOAD_FIELDS)
        if len(loads) != 1:
            raise ValueError(
                "a synthetic workload must set exactly one of request_rate, concurrency, or kv_load_ratio; "
                f"got {' and '.join(loads) or 'none'} (or set trace_path for a trace)"
            )
        missing = [name for name in LENGTH_FIELDS if getattr(self, name) is None]
        if missing:
            raise ValueError(f"a synthetic workload also needs {', '.join(missing)}")
        check_request_limits(self)
        self._check_synthetic_extras()

    def _check_synthetic_extras(self) -> None:
        inert = self._changed(TRACE_ONLY_FIELDS)
        if inert:
            raise ValueError(f"{', '.join(inert)} only apply to trace workloads; set trace_path or remove")
        if self.shared_prefix_ratio > 0 and self.num_prefix_groups < 1:
            raise ValueError(
                f"shared_prefix_ratio ({self.shared_prefix_ratio}) needs num_prefix_groups of at least 1"
            )

    def _changed(self, names: tuple[str, ...]) -> list[str]:
        # A field given at its default asks for nothing, so a dumped config loads again.
        return [name for name in names if getattr(self, name) != type(self).model_fields[name].default]

    @property
    def is_trace_based(self) -> bool:
        """Whether the traffic comes from a trace file."""
        return self.trace_path is not None

    @property
    def block_tokens(self) -> int | None:
        """`trace_block_size`, or None where nobody set it and the trace says it itself."""
        unset = "trace_block_size" not in self.model_fields_set
        return None if unset and self.trace_format in SIZED_FORMATS else self.trace_block_size

    @property
    def is_synthetic(self) -> bool:
        """Whether the traffic is drawn from lengths and a load."""
        return not self.is_trace_based

    @property
    def kv_load_ratio_range(self) -> tuple[float, float] | None:
        """`(min, max)` of a ranged relative load, else None."""
        ratio = self.kv_load_ratio
        return (ratio[0], ratio[1]) if isinstance(ratio, list) else None

    @property
    def synthetic_arrival_interval_ms(self) -> float:
        """Spacing of arrivals in ms (1.0 where a cap does the pacing)."""
        return 1.0 if self.request_rate is None else 1000.0 / self.request_rate

    def effective_in_flight_cap(self, override: int | None = None) -> int | None:
        """Return the closed-loop cap (None = open loop): the trace's own, or `override` or `concurrency`."""
        if self.is_trace_based:
            return self.replay_concurrency
        return self.concurrency if override is None else override

    def resolved_request_count(self, override: int | None = None) -> int:
        """Count synthetic requests (sessions when turns > 1): ratio x load, half away from zero, at least 1.

        `override` is the concurrency derived for a candidate. Raises ValueError when the load is relative
        and no override is given, or when the workload is a trace.
        """
        load = next((x for x in (override, self.concurrency, self.request_rate) if x is not None), None)
        if self.num_request_ratio is None:
            raise ValueError("a trace workload has no request count: its file decides")
        if load is None:
            raise ValueError("kv_load_ratio has no request count of its own: pass concurrency_override")
        return max(1, round_half_away(self.num_request_ratio * load))
