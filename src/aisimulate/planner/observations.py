"""What a planner sees at a tick."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aisimulate.forecast.traffic import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aisimulate.core.forward_pass import ForwardPass


@dataclass(frozen=True, slots=True)
class PoolCounts:
    """Replicas of a pool: `ready` serve, `expected` were asked for last; `in_progress` while they differ.

    `starting` ones will serve, `draining` ones still hold their GPUs.
    """

    ready: int
    expected: int
    in_progress: bool = False
    starting: int = 0
    draining: int = 0

    @property
    def present(self) -> int:
        """Replicas that are there to stay."""
        return self.ready + self.starting

    @property
    def is_scaling(self) -> bool:
        """Whether an earlier decision is still being carried out."""
        return self.in_progress or self.ready != self.expected


@dataclass(frozen=True, slots=True)
class Traffic:
    """Offered requests of a window, their mean lengths (tokens), cache hits and tokens per forward."""

    duration_s: float
    requests: float
    isl: float
    osl: float
    kv_hit_rate: float | None = None
    accept_length: float | None = None

    @property
    def window(self) -> Window:
        """What forecasters take in of it."""
        return Window(self.requests, self.isl, self.osl)

    def of_lengths(self, isl: float, osl: float) -> Traffic:
        """The same with other mean lengths."""
        return replace(self, isl=isl, osl=osl)


@dataclass(frozen=True, slots=True)
class Observation:
    """One tick: counts and last forward passes by pool; traffic since it was last used, when it is used.

    `windows`: traffic by branch (load, throughput), for a planner that looks at each by itself.
    """

    now_s: float
    counts: Mapping[str, PoolCounts]
    passes: Mapping[str, Sequence[ForwardPass]] = field(default_factory=dict)
    traffic: Traffic | None = None
    windows: Mapping[str, Traffic] = field(default_factory=dict)


class PassCache:
    """Remembers the last pass of each rank of the active workers; a quiet one keeps showing its last pass."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], ForwardPass] = {}

    def update(self, items: Iterable[ForwardPass], active: Iterable[int]) -> None:
        """Take in new passes, and forget workers that are not active."""
        for item in items:
            self._last[item.worker_id, item.dp_rank] = item
        keep = set(active)
        self._last = {key: item for key, item in self._last.items() if key[0] in keep}

    def passes(self) -> list[ForwardPass]:
        """List the last passes in the order in which the ranks were first seen."""
        return list(self._last.values())


_MEANS = {
    "avg_isl": "shape_count",
    "avg_osl": "shape_count",
    "avg_ttft_ms": "ttft_count",
    "avg_itl_ms": "itl_count",
    "avg_kv_hit_rate": "hit_rate_count",
    "avg_accept_length": "accept_length_forward_count",
}
_OFFERED = ("offered_input_tokens", "offered_output_tokens")
_SUMS = ("duration_s", "num_req", *_OFFERED, *dict.fromkeys(_MEANS.values()))


class TrafficWindow:
    """Merges the traffic of several ticks: counts add up, each mean is weighted by its own count."""

    def __init__(self) -> None:
        self._pending: dict[str, Any] | None = None

    def add(self, traffic: Mapping[str, Any]) -> None:
        """Take in what came since the tick before."""
        self._pending = dict(traffic) if self._pending is None else _merged(self._pending, traffic)

    def take(self, *, offered: bool = False) -> Traffic | None:
        """Give all traffic since the last call; None when no time has passed.

        With `offered`, lengths are those of the requests that came, not of those that completed.
        """
        window, self._pending = self._pending, None
        if window is None or window["duration_s"] <= 0:
            return None
        isl, osl = window["avg_isl"], window["avg_osl"]
        if offered and window["num_req"] and all(name in window for name in _OFFERED):
            isl, osl = (window[name] / window["num_req"] for name in _OFFERED)
        return Traffic(
            window["duration_s"],
            float(window["num_req"]),
            isl,
            osl,
            window.get("avg_kv_hit_rate"),
            window.get("avg_accept_length"),
        )


def _merged(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {key: earlier[key] + later[key] for key in _SUMS if key in earlier}
    for key, count in _MEANS.items():
        merged[key] = _mean(earlier.get(key), later.get(key), earlier[count], later[count])
    return merged


def _mean(earlier: float | None, later: float | None, first: float, second: float) -> float | None:
    """Weight two means; one that is missing says nothing."""
    if earlier is None or later is None:
        return earlier if later is None else later
    weight = first + second
    return (earlier * first + later * second) / weight if weight > 0 else 0.0
