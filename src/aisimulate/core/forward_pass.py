"""One forward pass of one rank, as those who watch describe it to those who plan."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter


@dataclass(slots=True, frozen=True)
class ForwardPass:
    """One pass of one rank: its duration in s, what it scheduled, and what waited when it began.

    Prefill lengths are prompt lengths, `sum_prefill_tokens` the tokens computed, `sum_prefill_kv_tokens`
    those that existed before. Queued decodes are preempted requests with all their tokens.
    All zero: an idle rank. The names are those of the reference (spec 03 section B2).
    """

    worker_id: int = 0
    dp_rank: int = 0
    wall_time: float = 0.0
    num_prefill_requests: int = 0
    sum_prefill_tokens: int = 0
    var_prefill_length: float = 0.0
    sum_prefill_kv_tokens: int = 0
    num_decode_requests: int = 0
    sum_decode_kv_tokens: int = 0
    var_decode_kv_tokens: float = 0.0
    num_queued_prefill: int = 0
    sum_queued_prefill_tokens: int = 0
    var_queued_prefill_length: float = 0.0
    num_queued_decode: int = 0
    sum_queued_decode_kv_tokens: int = 0
    var_queued_decode_kv_tokens: float = 0.0

    def named(self) -> dict[str, float]:
        """Give the values by name."""
        return dict(zip(_NAMES, _values(self), strict=True))


_NAMES = tuple(field.name for field in fields(ForwardPass))
_values = attrgetter(*_NAMES)
