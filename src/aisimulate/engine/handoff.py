"""The passage of one request from a prefill worker to a decode worker (spec 01 section 6)."""

from __future__ import annotations

from aisimulate.engine.sequence import Sequence


class Handoff:
    """One handoff: `source` computes the prompt, `request` decodes.

    The source samples one hidden token, or none when none is asked for. Instants in ns, None until they
    happen: the source is held, the destination reserved and activated, the source released.
    `pools`: those whose workers got it, "prefill" and "decode", in order. `missing_tokens`: prompt tokens
    that the destination does not have, in whole blocks. `order`: arrival at the decode rank; `attempted`:
    the state of that rank at the last try to reserve.
    """

    __slots__ = (
        "activated_ns",
        "attempted",
        "held_ns",
        "missing_tokens",
        "order",
        "pools",
        "released_ns",
        "request",
        "reserved_ns",
        "source",
    )

    def __init__(self, request: Sequence) -> None:
        self.request = request
        self.source = Sequence(
            request.ordinal,
            request.origin,
            request.arrival_ns,
            request.input_tokens,
            1 if request.output_tokens else 0,
            request.keys,
            request.stride,
            False,
            request.tail_start,
        )
        request.handoff = self.source.handoff = self
        self.held_ns: int | None = None
        self.reserved_ns: int | None = None
        self.activated_ns: int | None = None
        self.released_ns: int | None = None
        self.pools: tuple[str, ...] = ()
        self.missing_tokens = self.order = 0
        self.attempted = -1

    @property
    def admissions(self) -> tuple[tuple[int, int], ...]:
        """Admissions of both workers, in order."""
        return (*self.source.admissions, *self.request.admissions)
