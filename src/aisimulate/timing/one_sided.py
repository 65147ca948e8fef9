"""Pass times of workers that only prefill or only decode (spec 01 section 2.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.core.protocols import PassTimer


class OneSidedTimer:
    """A timer with one kind of forward that takes no time, otherwise the same as `timer`.

    A prefill worker samples its hidden token in the prefill forward; what a decode worker computes again
    after a preemption is not charged.
    """

    __slots__ = (
        "beside_ns",
        "decode_ns",
        "decodes_ns",
        "durations_ns",
        "forwards_ns",
        "fused_ns",
        "passes_until",
        "prefill_ns",
        "run_floor_ns",
        "run_ns",
        "tally_ns",
    )

    rises = False  # not known of a worker that only decodes, or only prefills

    def __init__(self, timer: PassTimer, *, prefills: bool) -> None:
        self.prefill_ns = timer.prefill_ns if prefills else _no_prefill_ns
        self.fused_ns = timer.fused_ns
        self.decode_ns = _no_decode_ns if prefills else timer.decode_ns
        self.beside_ns = self.decode_ns  # with prefills for nothing, a pass is a decode forward
        # All of these speak of runs of decode passes, which a prefill worker never has.
        self.run_ns = timer.run_ns
        self.run_floor_ns = timer.run_floor_ns
        self.passes_until = timer.passes_until
        self.durations_ns = timer.durations_ns
        self.forwards_ns = timer.forwards_ns
        self.decodes_ns = timer.decodes_ns
        self.tally_ns = timer.tally_ns


def _no_prefill_ns(batch: int, mean_isl: int, mean_prefix: int) -> int:
    del batch, mean_isl, mean_prefix
    return 0


def _no_decode_ns(batch: int, context_tokens: int) -> int:
    del batch, context_tokens
    return 0
