"""What a candidate's KV cache holds: its relative load, and whether it can run at all (spec 05 section 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import AISimulateError
from aisimulate.spica.kv_estimate import estimate_kv_tokens, estimator_missing_reason
from aisimulate.spica.model_hw import length_hint, max_sequence_tokens
from aisimulate.spica.parallel_enum import role_pools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.spica.config import Workload
    from aisimulate.spica.parallel_enum import ParallelConfig, ReplicaParallelConfig


class InfeasibleKVCapacity(AISimulateError, ValueError):
    """A candidate's KV cache cannot hold what is asked of it."""


@dataclass(frozen=True, slots=True)
class KVLoadResolution:
    """A KV-relative load turned into a concurrency.

    `role_capacity_tokens` counts whole blocks over all ranks and replicas of a role; its last entry is
    the load role (agg or decode). `concurrency_capacity` is the number of mean requests that fit there.
    """

    ratio: float
    concurrency: int
    concurrency_capacity: int
    role_capacity_tokens: dict[str, int]

    def sample_fields(self) -> dict[str, float | int]:
        """Give the keys that the resolution adds to a sample, in order (spec 05 section 8, block F)."""
        fields: dict[str, float | int] = {
            "kv_load_ratio": self.ratio,
            "kv_load_concurrency_capacity": self.concurrency_capacity,
            "kv_load_capacity_tokens": list(self.role_capacity_tokens.values())[-1],
        }
        roles = {f"{role}_kv_capacity_tokens": tokens for role, tokens in self.role_capacity_tokens.items()}
        return {**fields, **roles, "concurrency": self.concurrency}


def _rank_tokens(
    sample: Mapping[str, Any], role: str, pool: ReplicaParallelConfig, backend_version: str
) -> int:
    """Give one rank's KV tokens: as given, or estimated with the candidate's own knobs.

    Raises InfeasibleKVCapacity.
    """
    blocks = sample.get(f"{role}_num_gpu_blocks")
    if blocks is not None:
        return int(blocks) * int(sample[f"{role}_block_size"])
    tokens = estimate_kv_tokens(
        pool.shape,
        model_name=sample["model_name"],
        hardware_sku=sample["hardware_sku"],
        backend=sample["backend"],
        backend_version=backend_version,
        max_num_tokens=sample[f"{role}_max_num_batched_tokens"],
        memory_fraction=sample[f"{role}_gpu_memory_utilization"],
        allow_model_download=bool(sample.get("allow_model_download")),
    )
    if tokens is None:
        raise InfeasibleKVCapacity(f"the {role} role has no memory left for KV cache")
    return tokens


def _whole_blocks(tokens: int, block_tokens: int) -> int:
    return tokens // block_tokens * block_tokens


def resolve_kv_load(
    sample: Mapping[str, Any],
    *,
    workload: Workload,
    parallel_config: ParallelConfig,
    ratio: float,
    backend_version: str,
) -> KVLoadResolution:
    """Turn a share of a candidate's KV capacity into a number of requests in flight.

    A request is counted at its mean residency, isl + osl/2 tokens. At least one request runs whatever the
    ratio; a ratio above 1 oversubscribes. Raises ValueError without isl and osl, InfeasibleKVCapacity when a
    role has no KV budget or the load role cannot hold one request.
    """
    if workload.isl is None or workload.osl is None:
        raise ValueError("kv_load_ratio needs workload.isl and workload.osl")
    capacities: dict[str, int] = {}
    for role, pool in role_pools(parallel_config).items():
        usable = _whole_blocks(
            _rank_tokens(sample, role, pool, backend_version), sample[f"{role}_block_size"]
        )
        # Attention-DP ranks and replicas hold KV of their own; TP and EP ranks share one sequence's.
        capacities[role] = usable * pool.shape.dp * pool.replicas
    load_role, load_tokens = list(capacities.items())[-1]
    request_tokens = workload.isl + workload.osl // 2
    capacity = load_tokens // request_tokens
    if capacity < 1:
        raise InfeasibleKVCapacity(
            f"the {load_role} role's {load_tokens} KV tokens cannot hold one request of "
            f"{request_tokens} tokens"
        )
    return KVLoadResolution(ratio, max(1, int(ratio * capacity)), capacity, capacities)


def check_kv_capacity(
    sample: Mapping[str, Any],
    *,
    workload: Workload,
    parallel_config: ParallelConfig,
    backend_version: str,
) -> None:
    """Check a candidate with its own knobs before it is replayed, whatever the load shape (D6, D22).

    Each rank must hold more than the longest sequence (context_length, else the model's maximum), a
    prefill rank a whole synthetic prompt, and a rank of the load role a whole synthetic request. Does
    nothing when capacities cannot be estimated at all. Raises InfeasibleKVCapacity.
    """
    if estimator_missing_reason():
        return
    length, downloads = sample["context_length"], bool(sample.get("allow_model_download"))
    longest = max_sequence_tokens(sample["model_name"], length, downloads)
    for role, pool in role_pools(parallel_config).items():
        tokens = _rank_tokens(sample, role, pool, backend_version)
        if tokens <= longest:
            raise InfeasibleKVCapacity(
                f"{_a_rank(role)}'s {tokens} KV tokens cannot hold a sequence of {longest} tokens"
                f"{length_hint(length)}"
            )
        _check_request(role, _whole_blocks(tokens, sample[f"{role}_block_size"]), workload)


def _a_rank(role: str) -> str:
    return f"{'an' if role == 'agg' else 'a'} {role} rank"


def _check_request(role: str, usable_tokens: int, workload: Workload) -> None:
    needed_tokens = workload.isl or 0
    if role != "prefill":
        needed_tokens += workload.osl or 0
    if usable_tokens < needed_tokens:
        what = "prompt" if role == "prefill" else "request"
        raise InfeasibleKVCapacity(
            f"{_a_rank(role)}'s {usable_tokens} KV tokens in whole blocks cannot hold one {what} of "
            f"{needed_tokens} tokens"
        )
