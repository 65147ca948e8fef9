"""How long the KV cache of a prompt travels from a prefill to a decode worker (spec 01 section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.core.units import clock_ns

if TYPE_CHECKING:
    from aisimulate.engine.handoff import Handoff

_BYTES_PER_GB = 1e9


@dataclass(slots=True, frozen=True)
class TransferTime:
    """Bytes over bandwidth; transfers do not slow each other down.

    `fallback_ms` counts when bytes or bandwidth are not known (a bandwidth of 0 means not known).
    `missing_only`: charge the prompt tokens that the destination does not have, instead of all.
    """

    bytes_per_token: int | None = None
    bandwidth_gb_s: float | None = None
    missing_only: bool = False
    fallback_ms: float = 0.0

    @property
    def equal_delay_ns(self) -> int | None:
        """The time of every transfer, or None where it depends on the handoff."""
        if self.bytes_per_token is None or not self.bandwidth_gb_s:
            return clock_ns(self.fallback_ms)
        return None

    def delay_ns(self, handoff: Handoff) -> int:
        """Time from the start of a transfer to its end."""
        if self.bytes_per_token is None or not self.bandwidth_gb_s:
            return clock_ns(self.fallback_ms)
        tokens = handoff.missing_tokens if self.missing_only else handoff.request.input_tokens
        size_bytes = float(tokens) * float(self.bytes_per_token)
        return clock_ns(size_bytes / (self.bandwidth_gb_s * _BYTES_PER_GB) * 1000.0)
