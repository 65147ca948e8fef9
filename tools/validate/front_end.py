"""What sits between an engine and its client, fitted per backend on other models than the one scored."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING

from aisimulate.config.frontend import PRESETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.validate.outcomes import Outcome

_INTERVALS = (1, 2, 3, 4, 5, 7, 9, 11, 13, 15, 17, 19, 21, 26, 31)
_OFFSETS_MS = (0, 5, 10, 15, 20, 30, 40, 60, 80, 100, 130, 160, 200, 240, 280, 320)


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """The client sees tokens in chunks of `stream_interval`, and the first of them `ttft_offset_ms` late."""

    stream_interval: int = 1
    ttft_offset_ms: float = 0.0

    def ttft_ms(self, outcome: Outcome) -> float:
        """Time until the client sees something."""
        return outcome.ttft_ms + (self.stream_interval - 1) * outcome.tpot_ms + self.ttft_offset_ms

    def error(self, outcome: Outcome) -> float:
        """Relative error of that time."""
        return self.ttft_ms(outcome) / outcome.run.ttft_ms - 1.0


def preset(backend: str) -> FrontEnd:
    """Give the preset that the package ships for a backend."""
    values = PRESETS[f"inferencex-{backend}"]
    return FrontEnd(int(values.get("stream_interval", 1)), values.get("ttft_offset_ms", 0.0))


def fitted(outcomes: Sequence[Outcome]) -> FrontEnd:
    """Choose the front end with the least mean relative error; of equal ones the simplest."""
    ends = [FrontEnd(interval, float(offset)) for interval, offset in product(_INTERVALS, _OFFSETS_MS)]
    if not outcomes:
        return ends[0]
    return min(ends, key=lambda end: fmean(abs(end.error(outcome)) for outcome in outcomes))


def left_out(outcomes: Sequence[Outcome], trained_on: Sequence[Outcome]) -> Mapping[str, FrontEnd]:
    """Give each outcome (by the id of its run) a front end fitted without any run of its model.

    Fits take the outcomes `trained_on` of the same backend.
    """
    found: dict[tuple[str, str], FrontEnd] = {}
    for outcome in outcomes:
        key = (outcome.run.backend, outcome.run.family)
        if key not in found:
            found[key] = fitted([other for other in trained_on if _may_teach(other, *key)])
    return {outcome.run.id: found[(outcome.run.backend, outcome.run.family)] for outcome in outcomes}


def _may_teach(outcome: Outcome, backend: str, family: str) -> bool:
    run = outcome.run
    return run.backend == backend and run.family != family and not run.is_pair
