"""What it would cost to serve a prompt on each target, in blocks; lower is better (spec 03 section A3).

A prompt counts twice on one target: as prefill load and as decode blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence as ListOf

    from aisimulate.router.options import RouterOptions


@dataclass(slots=True)
class TargetLoads:
    """The state of all targets, each a list by target.

    `prefill_tokens`: still to compute; `active_blocks`: distinct ones (and what is generated, where that
    counts); `requests`: placed and not ended.
    """

    prefill_tokens: ListOf[int]
    active_blocks: ListOf[float]
    requests: ListOf[int]


class Prompt(NamedTuple):
    """A prompt to place. By target: leading blocks that are cached (`cached`), that are active (`shared`),
    and weighted ones in lower tiers (`lower`, if there are any). `blocks`: full ones.
    """

    tokens: int
    blocks: int
    cached: ListOf[int]
    shared: ListOf[int]
    lower: ListOf[float] | None


class CostFormula:
    """The formula with the settings of one pool."""

    __slots__ = ("_block_size", "_credit", "_decay", "_scale", "_tracks_blocks", "_weight")

    def __init__(self, options: RouterOptions, block_size: int) -> None:
        self._block_size = block_size
        self._credit = options.overlap_score_credit
        self._decay = options.overlap_score_credit_decay
        self._scale = options.prefill_load_scale if options.track_prefill_tokens else 0.0
        self._tracks_blocks = options.track_active_blocks
        self._weight = options.decode_active_request_weight

    def costs(self, prompt: Prompt, loads: TargetLoads, targets: ListOf[int]) -> list[float]:
        """Compute the cost of a prompt on each of `targets`."""
        tokens, blocks, cached, shared, lower = prompt
        active, requests, weight = loads.active_blocks, loads.requests, self._weight
        if not self._tracks_blocks:
            prefill = self._prefill(prompt, loads, targets)
            return [cost + weight * requests[t] for t, cost in zip(targets, prefill, strict=True)]
        if self._decay or lower is not None:
            prefill = self._prefill(prompt, loads, targets)
            return [
                cost + active[t] + (blocks - shared[t]) + weight * requests[t]
                for t, cost in zip(targets, prefill, strict=True)
            ]
        # The usual case, in one go.
        load, size = loads.prefill_tokens, self._block_size
        scale, credit = self._scale, self._credit
        costs = [
            (scale * left if (left := (load[t] + tokens) / size - credit * cached[t]) > 0 else 0.0)
            + active[t]
            + (blocks - shared[t])
            for t in targets
        ]
        return (
            [cost + weight * requests[t] for t, cost in zip(targets, costs, strict=True)] if weight else costs
        )

    def _prefill(self, prompt: Prompt, loads: TargetLoads, targets: ListOf[int]) -> list[float]:
        """Weigh the prefill of a prompt and of those before it, less the credit for what is cached."""
        size, load, lower = self._block_size, loads.prefill_tokens, prompt.lower
        least = min(load[t] for t in targets) if self._decay else 0
        full = -(-prompt.tokens // size)
        costs = []
        for t in targets:
            behind = (load[t] - least) / size / full
            credit = self._credit / (1 + self._decay * behind) * prompt.cached[t]
            if lower is not None:
                credit += lower[t]
            costs.append(self._scale * max(0.0, (load[t] + prompt.tokens) / size - credit))
        return costs
