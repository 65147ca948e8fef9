"""The deployments of the published front, each at its concurrency and at lower ones.

The engines of then have no timing data today, and their KV capacity was larger: a concurrency that the cache
of today cannot hold is cut to what it holds. Batch settings are those published for the first; the others
were published without. Where prompts of so many tokens a pass leave no room for a KV cache today, fewer are
taken.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from aisimulate.spica.kv_estimate import resolve_backend_version
from aisimulate.spica.kv_load import InfeasibleKVCapacity, resolve_kv_load
from aisimulate.spica.parallel_enum import ParallelShape
from aisimulate.spica.sample import unroll_sample
from aisimulate.spica.samplers.base import Suggestion

# (GPUs, tensor parallelism of attention, of experts) of a strategy: as spica names them.
SHAPES = {
    "TP": lambda gpus: ParallelShape(gpus, 1, gpus, 1),
    "DTP": lambda gpus: ParallelShape(1, gpus, gpus, 1),
    "TEP": lambda gpus: ParallelShape(gpus, 1, 1, gpus),
    "DEP": lambda gpus: ParallelShape(1, gpus, 1, gpus),
}


@dataclass(frozen=True)
class Published:
    """Workers as (replicas, strategy, GPUs) of both roles, and the concurrency."""

    prefill: tuple[int, str, int]
    decode: tuple[int, str, int]
    concurrency: int


PUBLISHED = (
    Published((2, "DEP", 8), (6, "DTP", 8), 11_940),
    Published((1, "DEP", 8), (6, "DTP", 8), 14_803),
    Published((1, "DEP", 8), (8, "DTP", 8), 18_325),
    Published((1, "TP", 8), (6, "DTP", 8), 20_237),
    Published((1, "DTP", 16), (5, "DTP", 8), 4_163),
    Published((1, "DEP", 8), (7, "DEP", 8), 7_038),
    Published((1, "TEP", 8), (2, "TP", 8), 1),
)
SHARES = (1.0, 1 / 4, 1 / 16, 1 / 64)
FIXED_POINTS = [(item, share) for share in SHARES for item in PUBLISHED if share * item.concurrency >= 1]
BUDGETS = (32768, 16384, 8192)
KNOBS = {
    "deployment_mode": "disagg",
    "router_mode": "round_robin",
    "planner_scaling_policy": "disabled",
    "prefill_max_num_seqs": 256,
    "decode_max_num_batched_tokens": 8192,
    "decode_max_num_seqs": 1024,
    "backend": "sglang",
}


class FixedSampler:
    """Suggests the published deployments, one after the other."""

    def __init__(self, branch, *, study_id, objectives, search):
        del study_id, objectives
        self.branch = branch
        self._search = search
        self._left = list(FIXED_POINTS)

    def suggest(self, count):
        taken, self._left = self._left[:count], self._left[count:]
        return [self._suggestion(item, share) for item, share in taken]

    def observe(self, suggestion, metrics):
        """Nothing to learn."""

    def observe_infeasible(self, suggestion, reason):
        """Nothing to learn."""

    def _suggestion(self, item, share):
        config = next(
            config
            for config in self.branch.parallel_configs
            if _matches(config.prefill, item.prefill) and _matches(config.decode, item.decode)
        )
        knobs, capacity = self._largest_budget(config)
        ratio = min(1.0, (item.concurrency * share + 0.5) / capacity)
        return Suggestion(knobs | {"kv_load_ratio": ratio}, config)

    def _largest_budget(self, config):
        """Return the settings with the largest token budget that leaves room, and what the pool holds."""
        for tokens in BUDGETS[:-1]:
            with suppress(InfeasibleKVCapacity):
                knobs = KNOBS | {"prefill_max_num_batched_tokens": tokens}
                return knobs, self._capacity(config, knobs)
        knobs = KNOBS | {"prefill_max_num_batched_tokens": BUDGETS[-1]}
        return knobs, self._capacity(config, knobs)

    def _capacity(self, config, knobs):
        """Return the requests that the decode pool holds. Raises InfeasibleKVCapacity."""
        sample = unroll_sample(
            search_space=self._search.search_space, selection=knobs, parallel_config=config
        )
        version = resolve_backend_version(self._search.search_space.hardware_sku, knobs["backend"])
        load = resolve_kv_load(
            sample, workload=self._search.workload, parallel_config=config, ratio=1.0, backend_version=version
        )
        return load.concurrency_capacity


def _matches(role, wanted):
    replicas, strategy, gpus = wanted
    return role.replicas == replicas and role.shape == SHAPES[strategy](gpus)
