"""What the performance model answers. Times in ms, sizes in bytes, lengths in tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.timing.aic.operations import OperationTime
    from aisimulate.timing.aic.tables import TableSource


@dataclass(frozen=True, slots=True)
class DataQuality:
    """How far a time rests on measurements.

    `origin`, from best to worst: `measured` (at lengths, batch and tokens that were measured),
    `interpolated` (between such), `extrapolated` (outside what was measured; `beyond` says where), and
    `transferred` (data of another shape or type, `transfer` names the kind). The range of each axis is that
    of a whole table: a kernel shape in it may have been measured over less. `formula_share` is the share of
    the time, 0..1, that comes from formulas (memory bandwidth, links) and not from tables.
    """

    origin: str
    formula_share: float
    beyond: tuple[str, ...] = ()
    transfer: str | None = None


@dataclass(frozen=True, slots=True)
class Latency:
    """One prefill or decode forward of a rank.

    `batch` is a number of requests per attention-DP rank, `length_tokens` the prompt length with its cached
    `prefix_tokens` (prefill) or the sequence length (decode). `operations` sum up to the latency, except
    that draft layers are not listed.
    """

    phase: str
    batch: int
    length_tokens: int
    prefix_tokens: int
    latency_ms: float
    data: DataQuality
    operations: tuple[OperationTime, ...]


@dataclass(frozen=True, slots=True)
class MixedLatency:
    """A pass that computes `prefill` and `decode` together, in the two ways that a replay can time it.

    `fused_ms`: as one forward. `additive_ms`: as the sum of the two forwards.
    """

    prefill: Latency
    decode: Latency
    fused_ms: float

    @property
    def additive_ms(self) -> float:
        """One forward after the other."""
        return self.prefill.latency_ms + self.decode.latency_ms


@dataclass(frozen=True, slots=True)
class Capacity:
    """KV cache of one rank, and what fills the memory of each of its GPUs (bytes).

    `memory_fraction` of the whole memory (`of_total`) or of what the others leave (`of_free`) may be filled;
    `unused_bytes` is the rest. A worker of `ranks` attention-DP ranks holds `worker_tokens`.
    """

    tokens: int
    blocks: int
    block_size: int
    ranks: int
    max_num_batched_tokens: int
    memory_fraction: float
    memory_fraction_kind: str
    capacity_bytes: int
    weights_bytes: int
    activations_bytes: int
    runtime_bytes: int
    communication_bytes: int
    kv_bytes: int
    kv_bytes_per_token: int

    @property
    def worker_tokens(self) -> int:
        """Tokens in the whole blocks of all ranks."""
        return self.blocks * self.block_size * self.ranks

    @property
    def unused_bytes(self) -> int:
        """What the memory fraction leaves alone."""
        used = self.weights_bytes + self.activations_bytes + self.runtime_bytes + self.communication_bytes
        return max(0, self.capacity_bytes - used - self.kv_bytes)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Which data an engine's figures stand on.

    `slot` is the alias of the version, None when it has none; `slots` are all that the system offers.
    `dtypes` are those in force, chosen by the user or by the checkpoint and the data.
    """

    backend_version: str
    slot: str | None
    slots: dict[str, str]
    dtypes: dict[str, str]
    tables: tuple[TableSource, ...]
    advisories: tuple[str, ...]
