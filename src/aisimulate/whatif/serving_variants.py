"""What stands between the traffic and the passes: look-ahead, front end, and a calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.config.payload import parse_payload
from aisimulate.whatif.payloads import get, put, rank_path
from aisimulate.whatif.variants import Variant, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.whatif.base import Base

_PRESET = "inferencex"


def serving(base: Base) -> Iterator[Variant]:
    """Asynchronous scheduling, a front end and a calibration: with them, or where they are given without."""
    yield _look_ahead(base)
    yield _front_end(base)
    path = ("spec", "calibration")
    name, title = "no-calibration", "without the calibration"
    if get(base.payload, path) is None:
        yield skipped(name, title, "there is none")
    else:
        yield Variant(name, title, put(base.payload, path, None))


def _look_ahead(base: Base) -> Variant:
    spec = parse_payload(base.payload).spec
    has_it = any(spec.engine.role(stage).rank.scheduling_look_ahead for stage in spec.stages)
    payload = base.payload
    for stage in base.stages:
        payload = put(payload, (*rank_path(stage), "scheduling_look_ahead"), 0 if has_it else 1)
    if has_it:
        return Variant("no-look-ahead", "passes planned when they begin", payload)
    return Variant("look-ahead", "passes planned one ahead (asynchronous scheduling)", payload)


def _front_end(base: Base) -> Variant:
    path = ("spec", "frontend")
    if get(base.payload, path):
        return Variant("no-front-end", "without the front end", put(base.payload, path, None))
    preset = {"preset": _PRESET}
    title = f"a front end as in published benchmarks (preset {_PRESET})"
    return Variant("front-end", title, put(base.payload, path, preset))
