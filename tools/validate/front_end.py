"""What sits between passes and clients, fitted per backend on other models than the one scored.

Few numbers, chosen so that they hold for models that no fit has seen: one for the first token, tokens of a
chunk or a constant, by which the model that it misses most is missed least; and host time of each pass, by
which no model gets worse. The first is of the scripts of InferenceX: other runs have none. The second is the
engine's.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from aisimulate.config.frontend import PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tools.validate.outcomes import Outcome

_INTERVALS = (1, 2, 3, 4, 5, 7, 9, 11, 13, 15, 17, 19, 21, 26, 31)
_OFFSETS_MS = (0, 5, 10, 15, 20, 30, 40, 60, 80, 100, 130, 160, 200, 240, 280, 320)
_OVERHEADS_MS = tuple(0.25 * step for step in range(21))


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """Clients see chunks of tokens, somewhat late, and passes take a little more than their forwards.

    Applied to means of a replay without it: chunks and overhead of the few passes that only prefill are left
    out of the time per output token (a replay with them differs by less than 2 %).
    """

    stream_interval: int = 1
    ttft_offset_ms: float = 0.0
    step_overhead_ms: float = 0.0

    def ttft_ms(self, outcome: Outcome) -> float:
        """Time until the client sees something."""
        engine_ms = outcome.ttft_ms + self.step_overhead_ms
        beyond_the_first = self.stream_interval - 1
        return engine_ms + beyond_the_first * (outcome.tpot_ms + self.step_overhead_ms) + self.ttft_offset_ms

    def tpot_ms(self, outcome: Outcome) -> float:
        """Time from the first visible token to the last, over the number of tokens less one."""
        gaps = max(1.0, outcome.run.mean_osl - 1.0)
        unseen = min(gaps, self.stream_interval - 1.0)
        return (outcome.tpot_ms + self.step_overhead_ms) * (1.0 - unseen / gaps)

    def error(self, outcome: Outcome) -> float:
        """Relative error of the TTFT."""
        return self.ttft_ms(outcome) / outcome.run.ttft_ms - 1.0

    def tpot_error(self, outcome: Outcome) -> float:
        """Relative error of the TPOT."""
        return self.tpot_ms(outcome) / outcome.run.tpot_ms - 1.0


def preset(backend: str) -> FrontEnd:
    """Give the preset that the package ships for a backend."""
    values = PRESETS[f"inferencex-{backend}"]
    return FrontEnd(**{**values, "stream_interval": int(values.get("stream_interval", 1))})


def fitted(outcomes: Iterable[Outcome]) -> FrontEnd:
    """Fit one to the runs of several models."""
    families: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        families[outcome.run.family].append(outcome)
    models = list(families.values())
    if not models:
        return FrontEnd()
    overhead_ms = _overhead_ms(models)
    ends = [FrontEnd(interval, 0.0, overhead_ms) for interval in _INTERVALS]
    ends += [FrontEnd(1, float(offset_ms), overhead_ms) for offset_ms in _OFFSETS_MS]
    return min(ends, key=lambda end: max(_misses(models, end.error)))


def _overhead_ms(models: Sequence[Sequence[Outcome]]) -> float:
    """Choose the overhead with the least error of the TPOT among those by which no model gets worse."""
    without = _misses(models, FrontEnd().tpot_error)
    found = {}
    for overhead_ms in _OVERHEADS_MS:
        errors = _misses(models, FrontEnd(step_overhead_ms=overhead_ms).tpot_error)
        if all(error <= before for error, before in zip(errors, without, strict=True)):
            found[overhead_ms] = fmean(errors)
    return min(found, key=lambda overhead_ms: found[overhead_ms])


def _misses(models: Sequence[Sequence[Outcome]], error: Callable[[Outcome], float]) -> list[float]:
    """Mean size of an error for each model."""
    return [fmean(abs(error(outcome)) for outcome in model) for model in models]


def left_out(outcomes: Sequence[Outcome], trained_on: Sequence[Outcome]) -> Mapping[str, FrontEnd]:
    """Give each outcome (by the id of its run) a front end fitted without any run of its model.

    Fits take the outcomes `trained_on` of the same backend.
    """
    found: dict[tuple[str, str], FrontEnd] = {}
    for outcome in outcomes:
        key = (outcome.run.backend, outcome.run.family)
        if key not in found:
            others = [other for other in trained_on if other.run.family != outcome.run.family]
            found[key] = fitted(teachers(others, outcome.run.backend))
    ends = {outcome.run.id: found[(outcome.run.backend, outcome.run.family)] for outcome in outcomes}
    for run in (outcome.run for outcome in outcomes):
        if run.is_of_laboratory:
            ends[run.id] = FrontEnd(step_overhead_ms=ends[run.id].step_overhead_ms)
    return ends


def teachers(outcomes: Iterable[Outcome], backend: str) -> list[Outcome]:
    """Choose the runs that tell of the front end of InferenceX with a backend."""
    return [
        outcome
        for outcome in outcomes
        if outcome.run.backend == backend and not outcome.run.is_pair and not outcome.run.is_of_laboratory
    ]
