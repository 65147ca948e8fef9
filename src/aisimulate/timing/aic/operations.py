"""A forward, operation by operation: how long each lasts and whether its time was measured.

Two kinds of operations tell themselves apart in every forward: attention, whose time depends on whose
tokens are computed, and all others, whose time depends only on how many (spec 04 section 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiconfigurator_core import AicEngine

# An engine's attention is one operation or, where projections were measured along with it, one block.
_ATTENTION = frozenset(
    {"context_attention", "context_mla_block", "generation_attention", "generation_mla_block"}
)
# What AI Configurator calls the origin of a time, in our words.
_SOURCES = {"silicon": "measured", "empirical": "formula", "sol": "formula", "estimated": "formula"}


@dataclass(frozen=True, slots=True)
class OperationTime:
    """All calls of one operation in a forward: ms, and where they come from.

    `source` is `measured` (tables of the GPU), `formula` (bandwidth, or another model) or `mixed`.
    """

    name: str
    ms: float
    source: str

    @property
    def is_attention(self) -> bool:
        """Whether the time depends on the context of the tokens, not only on their number."""
        return self.name in _ATTENTION


def prefill_operations(engine: AicEngine, batch: int, isl: int, prefix: int) -> list[OperationTime]:
    """Take apart a prefill forward. Raises what AI Configurator raises."""
    context, _ = engine.run_static_per_op(batch, 1, isl, 2, prefix, 1.0, 1.0, "static_ctx")
    return [OperationTime(name, ms, _SOURCES.get(source, source)) for name, ms, _, source in context]


def decode_operations(engine: AicEngine, batch: int, context_tokens: int) -> list[OperationTime]:
    """Take apart a decode forward over sequences of `context_tokens`. Raises what AI Configurator raises."""
    # With an output length of 1 this is the step that `predict_decode_latency(.., osl=2)` prices.
    step = engine.decode_step_per_op(batch, context_tokens, 1)
    return [OperationTime(name, ms, _SOURCES.get(source, source)) for name, ms, _, source in step]


def attention_ms(operations: Sequence[OperationTime]) -> float:
    """Time of the attention of a forward."""
    return sum(operation.ms for operation in operations if operation.is_attention)


def shared_ms(operations: Sequence[OperationTime]) -> float:
    """Time of everything else, which all tokens of a forward share."""
    return sum(operation.ms for operation in operations if not operation.is_attention)
