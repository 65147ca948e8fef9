"""How many KV tokens one rank of a shape can hold, and which shapes can hold a sequence (spec 05 section 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError, TimingError
from aisimulate.spica.dropped_shapes import DroppedShape
from aisimulate.spica.outcome import Reason
from aisimulate.timing.aic import memory, quant, version
from aisimulate.timing.aic.engine import EngineKey
from aisimulate.timing.aic.errors import NoKvBudget, ShapeNotViable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aisimulate.spica.parallel_enum import ParallelShape

DEFAULT_MAX_NUM_TOKENS = 8192
DEFAULT_MAX_BATCH_SIZE = 256
DEFAULT_MEMORY_FRACTION = 0.9


class NoPerfDatabase(TimingError):
    """There is no performance data for a (SKU, backend) pair."""


@dataclass(frozen=True, slots=True)
class RoleKnobs:
    """The knobs of a role that decide how much memory is left for KV."""

    max_num_tokens: int = DEFAULT_MAX_NUM_TOKENS
    memory_fraction: float = DEFAULT_MEMORY_FRACTION


def memory_fraction_kind(backend: str) -> str:
    """Say of what a backend's memory fraction is a share: `of_free` memory (trtllm) or `of_total`."""
    return "of_free" if backend == "trtllm" else "of_total"
