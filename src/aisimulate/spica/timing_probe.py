"""Proof that a shape can be timed, before any search.

KV capacity proves nothing about timing data, and compiling an engine does not look at them either: only a
prediction does (spec 04 sections 3 and 11). A prefill gap says nothing about decode, nor the reverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.spica.dropped_shapes import DroppedShape
from aisimulate.spica.outcome import Reason
from aisimulate.timing.aic.engine import compile_engine_spec, probe
from aisimulate.timing.aic.errors import AicDataGap, AicUnsupportedDtype, ShapeNotViable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aisimulate.spica.parallel_enum import ParallelShape
    from aisimulate.timing.aic.key import EngineKey

_CATEGORIES = {
    AicDataGap: Reason.DATA_GAP,
    AicUnsupportedDtype: Reason.UNSUPPORTED_DTYPE,
    ShapeNotViable: Reason.SHAPE_NOT_VIABLE,
}


def probe_shape(shape: ParallelShape, role: str, key: EngineKey) -> DroppedShape | None:
    """Time one prefill and one decode, as far as `role` (agg, prefill or decode) needs them.

    Returns None when both work, else why the shape must be dropped; any other error propagates.
    """
    try:
        probe(compile_engine_spec(key), prefill=role != "decode", decode=role != "prefill")
    except tuple(_CATEGORIES) as error:
        # The engine's name is that of the shape, which the record carries already.
        reason = str(error).removeprefix(f"{key}: ")
        return DroppedShape(shape, role, _CATEGORIES[type(error)], reason)
    return None


def timed_shapes(
    shapes: Iterable[ParallelShape],
    *,
    role: str,
    key_of: Callable[[ParallelShape], EngineKey],
    on_drop: Callable[[DroppedShape], None] | None = None,
) -> list[ParallelShape]:
    """Keep the shapes that can be timed in `role`, order kept; `on_drop` receives the others.

    `key_of` names the engine that serves in a shape.
    """
    kept: list[ParallelShape] = []
    for shape in shapes:
        dropped = probe_shape(shape, role, key_of(shape))
        if dropped is None:
            kept.append(shape)
        elif on_drop:
            on_drop(dropped)
    return kept
