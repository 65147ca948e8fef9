"""Latent features in, one config of the pool out.

The optimizer never sees tp, dp or replica counts, whose legal combinations are sparse. It proposes
resource ratios, engine sizes and attention/FFN modes; the projector answers with the nearest config
that the chosen backend supports (spec 05 section 6). It keeps no history: equal requests, equal answers.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from aisimulate.core.errors import InputError
from aisimulate.spica.parallel_enum import DisaggParallelConfig, role_pools

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aisimulate.spica.parallel_enum import ParallelConfig, ParallelShape, ReplicaParallelConfig
    from aisimulate.spica.search_space import BranchSpace

USED_GPU_RATIO = "used_gpu_ratio"
AGG_NUM_GPUS_PER_ENGINE_TARGET = "agg_num_gpus_per_engine_target"
AGG_ATTENTION_MODE = "agg_attention_mode"
AGG_FFN_MODE = "agg_ffn_mode"
PREFILL_GPU_SHARE = "prefill_gpu_share"
PREFILL_NUM_GPUS_PER_ENGINE_TARGET = "prefill_num_gpus_per_engine_target"
DECODE_NUM_GPUS_PER_ENGINE_TARGET = "decode_num_gpus_per_engine_target"
PREFILL_ATTENTION_MODE = "prefill_attention_mode"
DECODE_ATTENTION_MODE = "decode_attention_mode"
PREFILL_FFN_MODE = "prefill_ffn_mode"
DECODE_FFN_MODE = "decode_ffn_mode"

_AGG_ORDER = (USED_GPU_RATIO, AGG_NUM_GPUS_PER_ENGINE_TARGET, AGG_ATTENTION_MODE, AGG_FFN_MODE)
_DISAGG_ORDER = (
    USED_GPU_RATIO,
    PREFILL_GPU_SHARE,
    PREFILL_NUM_GPUS_PER_ENGINE_TARGET,
    DECODE_NUM_GPUS_PER_ENGINE_TARGET,
    PREFILL_ATTENTION_MODE,
    DECODE_ATTENTION_MODE,
    PREFILL_FFN_MODE,
    DECODE_FFN_MODE,
)
_PREFERRED_RATIO = {USED_GPU_RATIO: 1.0, PREFILL_GPU_SHARE: 0.5}
_ATTENTION_ORDER = ("tp", "dp")
_FFN_ORDER = ("ep", "tp")

# Distances that differ by rounding noise only are ties, which the config key must decide.
_DISTANCE_DECIMALS = 12

FeatureValue: TypeAlias = float | str


@dataclass(frozen=True, slots=True)
class ParallelParameter:
    """One latent feature: a float range, a log-scaled set of engine sizes, or a set of modes."""

    name: str
    kind: Literal["float", "discrete", "categorical"]
    default: FeatureValue
    minimum: float | None = None
    maximum: float | None = None
    values: tuple[FeatureValue, ...] = ()
    log_scale: bool = False

    @property
    def constant(self) -> bool:
        """Whether the pool offers a single value, so that there is nothing to search."""
        if self.kind == "float":
            return self.minimum == self.maximum
        return len(self.values) == 1


@dataclass(frozen=True, slots=True)
class ParallelProjection:
    """The config that a request became, with what was asked and what was got."""

    config: ParallelConfig
    requested_features: dict[str, FeatureValue]
    actual_features: dict[str, FeatureValue]
    distance: float
    mode_projected: bool

    def metadata(self) -> dict[str, Any]:
        """Give the projection as plain JSON values."""
        return {
            "requested_features": dict(self.requested_features),
            "actual_features": dict(self.actual_features),
            "projection_distance": self.distance,
            "mode_projected": self.mode_projected,
            "actual_parallel_config": asdict(self.config),
        }


def geometric_centre(sizes: Iterable[int]) -> int:
    """Pick the size nearest in log space to sqrt(min * max); ties go to the smaller one.

    Exact: floating logarithms would break ties by rounding noise.
    """
    ordered = sorted(set(sizes))
    product = ordered[0] * ordered[-1]

    def stretch(size: int) -> Fraction:
        ratio = Fraction(size * size, product)
        return max(ratio, 1 / ratio)

    return min(ordered, key=lambda size: (stretch(size), size))


def _mode_features(role: str, shape: ParallelShape) -> dict[str, FeatureValue]:
    return {
        f"{role}_num_gpus_per_engine_target": float(shape.gpus_per_worker),
        f"{role}_attention_mode": "dp" if shape.dp > 1 else "tp",
        f"{role}_ffn_mode": "ep" if shape.moe_ep > 1 else "tp",
    }


def _features(config: ParallelConfig, budget_gpus: int) -> dict[str, FeatureValue]:
    """List every feature of a config, FFN modes included whatever the model."""
    total_gpus = config.total_gpus
    features: dict[str, FeatureValue] = {USED_GPU_RATIO: total_gpus / budget_gpus}
    if not isinstance(config, DisaggParallelConfig):
        return features | _mode_features("agg", config.shape)
    features[PREFILL_GPU_SHARE] = config.prefill.total_gpus / total_gpus
    prefill = _mode_features("prefill", config.prefill.shape)
    return features | prefill | _mode_features("decode", config.decode.shape)


def _splits_experts(config: ParallelConfig) -> bool:
    return any(pool.shape.moe_tp > 1 or pool.shape.moe_ep > 1 for pool in role_pools(config).values())


def _pool_key(pool: ReplicaParallelConfig) -> tuple[int, ...]:
    shape = pool.shape
    return shape.tp, shape.pp, shape.dp, shape.moe_tp, shape.moe_ep, pool.replicas


def _config_key(config: ParallelConfig) -> tuple[int, ...]:
    """Order configs by shape and replicas, prefill before decode."""
    if isinstance(config, DisaggParallelConfig):
        return _pool_key(config.prefill) + _pool_key(config.decode)
    return _pool_key(config)


def _make_parameter(name: str, values: set[FeatureValue]) -> ParallelParameter:
    if name.endswith("_mode"):
        order = _FFN_ORDER if name.endswith("_ffn_mode") else _ATTENTION_ORDER
        present = tuple(mode for mode in order if mode in values)
        return ParallelParameter(name, "categorical", present[0], values=present)
    numbers = sorted(float(value) for value in values)
    if name in _PREFERRED_RATIO:
        default = min(max(_PREFERRED_RATIO[name], numbers[0]), numbers[-1])
        return ParallelParameter(name, "float", default, numbers[0], numbers[-1])
    centre = float(geometric_centre(int(number) for number in numbers))
    return ParallelParameter(name, "discrete", centre, values=tuple(numbers), log_scale=True)


def _coordinate(parameter: ParallelParameter, value: FeatureValue) -> float:
    """Map a numeric feature to the axis on which distances are measured."""
    number = float(value)
    if not parameter.log_scale:
        return number
    if number <= 0:
        raise InputError(f"{parameter.name}: {number:g} must be positive")
    return math.log2(number)


@dataclass(frozen=True, slots=True)
class _Point:
    """A pool config on the distance axes."""

    coordinates: tuple[float, ...]
    key: tuple[int, ...]
    config: ParallelConfig


@dataclass(frozen=True, slots=True)
class _BackendPool:
    """The configs of one backend grouped by modes, and the span of each numeric axis over all of them."""

    groups: dict[tuple[str, ...], list[_Point]]
    spans: tuple[float, ...]

    def candidates(self, modes: tuple[str, ...]) -> tuple[int, list[_Point]]:
        """Return the least number of missed modes and every config that misses just so many."""
        missed = {group: sum(a != b for a, b in zip(group, modes, strict=True)) for group in self.groups}
        least = min(missed.values())
        return least, [
            point for group, points in self.groups.items() if missed[group] == least for point in points
        ]

    def distance(self, point: _Point, request: tuple[float, ...]) -> float:
        """Sum the squared differences in units of each axis' span; axes without span do not count."""
        axes = zip(point.coordinates, request, self.spans, strict=True)
        return sum(((actual - asked) / span) ** 2 for actual, asked, span in axes if span > 0)


class ParallelConfigProjector:
    """Projects requests onto the pool of one branch.

    Raises InputError (a ValueError) when the pool is empty.
    """

    def __init__(self, branch: BranchSpace) -> None:
        if not branch.parallel_configs:
            raise InputError(f"{branch.deployment_mode}: the pool of parallel configs is empty")
        self._branch = branch
        self._budget_gpus = branch.gpu_budget or max(config.total_gpus for config in branch.parallel_configs)
        self.is_moe = any(_splits_experts(config) for config in branch.parallel_configs)
        self.parameters = self._make_parameters()
        self._numeric = tuple(p for p in self.parameters if p.kind != "categorical")
        self._modes = tuple(p for p in self.parameters if p.kind == "categorical")
        self._pools: dict[str, _BackendPool] = {}

    def _make_parameters(self) -> tuple[ParallelParameter, ...]:
        order = _DISAGG_ORDER if self._branch.deployment_mode == "disagg" else _AGG_ORDER
        names = [name for name in order if self.is_moe or not name.endswith("_ffn_mode")]
        values: dict[str, set[FeatureValue]] = {name: set() for name in names}
        for config in self._branch.parallel_configs:
            features = _features(config, self._budget_gpus)
            for name in names:
                values[name].add(features[name])
        return tuple(_make_parameter(name, values[name]) for name in names)

    def _backend_pool(self, backend: str) -> _BackendPool:
        """Index the configs of a backend, once."""
        if backend not in self._pools:
            supported = self._branch.supported_backends
            configs = [c for c in self._branch.parallel_configs if backend in supported[c]]
            if not configs:
                raise InputError(f"backend: {backend!r} supports no parallel config of this branch")
            self._pools[backend] = self._index(configs)
        return self._pools[backend]

    def _index(self, configs: list[ParallelConfig]) -> _BackendPool:
        groups: dict[tuple[str, ...], list[_Point]] = {}
        for config in configs:
            features = _features(config, self._budget_gpus)
            coordinates = tuple(_coordinate(p, features[p.name]) for p in self._numeric)
            modes = tuple(str(features[p.name]) for p in self._modes)
            groups.setdefault(modes, []).append(_Point(coordinates, _config_key(config), config))
        columns = zip(*(point.coordinates for points in groups.values() for point in points), strict=True)
        return _BackendPool(groups, tuple(max(column) - min(column) for column in columns))

    def features(self, config: ParallelConfig) -> dict[str, FeatureValue]:
        """Return the value of every parameter that `config` has: projecting them gives `config` again."""
        found = _features(config, self._budget_gpus)
        return {parameter.name: found[parameter.name] for parameter in self.parameters}

    def project(self, params: Mapping[str, Any], backend: str) -> ParallelProjection:
        """Find the config of `backend` nearest to the requested features.

        Missing features take their defaults; entries of `params` that name no feature are ignored, so a
        sampler may hand over its whole suggestion. Matching modes always beat numeric closeness, and
        requests out of range are not clipped. Raises InputError when `backend` supports no config.
        """
        requested = {p.name: self._requested(p, params) for p in self.parameters}
        pool = self._backend_pool(backend)
        missed, points = pool.candidates(tuple(str(requested[p.name]) for p in self._modes))
        request = tuple(_coordinate(p, requested[p.name]) for p in self._numeric)
        best = min(points, key=lambda pt: (round(pool.distance(pt, request), _DISTANCE_DECIMALS), pt.key))
        actual = self.features(best.config)
        return ParallelProjection(best.config, requested, actual, pool.distance(best, request), missed > 0)

    @staticmethod
    def _requested(parameter: ParallelParameter, params: Mapping[str, Any]) -> FeatureValue:
        value = params.get(parameter.name, parameter.default)
        return str(value) if parameter.kind == "categorical" else float(value)
