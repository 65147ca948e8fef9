"""Samples of measured pass times, from which a model that learns can start (spec 03 section B7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.forward_pass import ForwardPass
from aisimulate.core.units import NS_PER_S
from aisimulate.planner.settings import DECODE, PREFILL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.core.protocols import PassTimer
    from aisimulate.planner.settings import EngineLimits

_STEPS = 8
_FIRST_TOKENS = 100
_CONTEXTS = (500, 2000, 4000, 8000)


def sample_passes(pool: str, timer: PassTimer, limits: EngineLimits) -> list[ForwardPass]:
    """Time passes of an idle engine: lone prompts of growing length, and decode batches of some contexts."""
    passes: list[ForwardPass] = []
    if pool != DECODE:
        passes += _prompts(timer, limits.batched_tokens or 0)
    if pool != PREFILL:
        passes += _decodes(timer, limits.seqs or 0, limits.kv_tokens or 0)
    return [item for item in passes if item.wall_time > 0]


def _prompts(timer: PassTimer, most_tokens: int) -> Iterator[ForwardPass]:
    step = max(1, (most_tokens - _FIRST_TOKENS) // _STEPS)
    for tokens in range(_FIRST_TOKENS, most_tokens + 1, step):
        wall_s = timer.prefill_ns(1, tokens, 0) / NS_PER_S
        yield ForwardPass(wall_time=wall_s, num_prefill_requests=1, sum_prefill_tokens=tokens)


def _decodes(timer: PassTimer, most_seqs: int, kv_tokens: int) -> Iterator[ForwardPass]:
    step = max(1, most_seqs // _STEPS)
    for context in _CONTEXTS:
        for batch in range(1, most_seqs + 1, step):
            if batch * context > kv_tokens:
                break
            # Of a prompt of that length, the first decode pass: it holds one generated token.
            wall_s = timer.decode_ns(batch, batch * (context + 1)) / NS_PER_S
            yield ForwardPass(
                wall_time=wall_s, num_decode_requests=batch, sum_decode_kv_tokens=batch * context
            )
