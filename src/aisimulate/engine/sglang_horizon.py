"""When the head of an SGLang queue gets in: what is reserved for outputs shrinks from pass to pass.

Tokens that are not reserved, before pass i of a run: those in free pages, less what the decoders have opened
until then, less share i of what they may still generate (spec 01 section (b), rules 5 and 12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.engine.sglang_scheduler import SglangScheduler


def passes_until_admission(rank: SglangScheduler, tokens: int, opening: int, limit: int) -> int:
    """Find the first of the passes 1, 2, .. at whose start more than `tokens` are free; at most `limit`.

    `opening` pages of pass 0 are taken already.
    """
    decoders, reservations = rank.decoders, rank.reservations
    limit = min(limit, reservations.next_turn() - decoders.passes)
    page_size = rank.params.block_size
    pages = rank.pool.free + rank.pool.inactive + opening
    passes, done = 0, decoders.passes
    # Tokens that the members may lag behind the pages they opened.
    slack = decoders.count * (page_size - 1)
    while passes < limit:
        ratio = rank.ratio.ahead(passes)
        reserved = reservations.tokens(done + passes)
        available = (pages - decoders.demand(passes)) * page_size
        missing = tokens - (available - reserved * ratio)
        margin = 1e-6 + 1e-9 * reserved
        if passes and missing < margin:
            exact = reservations.exact(decoders.members, done + passes, ratio)
            if missing < -margin or tokens < float(available) - exact:
                return passes
        # No pass frees more than this: fewer tokens to come, and a smaller share of the others.
        gain = reservations.count * ratio + reserved * rank.ratio.decay
        leap = missing / gain if gain > 0 else limit
        net = gain - decoders.count
        if net > 0:
            leap = max(leap, (missing - slack) / net)
        elif missing > slack + margin:
            return max(limit, 1)
        passes += min(max(1, int(leap)), limit)
    return max(limit, 1)
