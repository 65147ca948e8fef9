"""Priced runs with what is known of the data behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.config.aic import AicConfig
from aisimulate.config.messages import parse_model
from aisimulate.core.errors import TimingError
from aisimulate.replay.capacity import aic_engine_key
from aisimulate.timing.aic.health import Confidence, Finding, engine_confidence
from tools.validate.bundled import bundled_runs
from tools.validate.deployments import MAX_NUM_BATCHED_TOKENS, aic_settings
from tools.validate.front_end import left_out
from tools.validate.outcomes import PRICED
from tools.validate.repeats import disturbed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tools.validate.front_end import FrontEnd
    from tools.validate.outcomes import Outcome
    from tools.validate.runs import MeasuredRun

MOST_GPUS = 8
"""Aggregated workers of more GPUs are several workers, or a shape that was put down wrongly."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An outcome; `grade` is the confidence in its data, `doubts` say why it is not clean.

    Clean was defined after the data had been seen (spec 07 section 1). Both are empty where not priced.
    """

    outcome: Outcome
    grade: str = ""
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scored:
    """A priced run and the front end that its client is assumed to see it through."""

    judged: Judged
    front_end: FrontEnd

    @property
    def outcome(self) -> Outcome:
        """What the replay gave."""
        return self.judged.outcome

    @property
    def run(self) -> MeasuredRun:
        """What was measured."""
        return self.judged.outcome.run

    @property
    def is_clean(self) -> bool:
        """Whether nothing speaks against its data or its shape."""
        return not self.judged.doubts


def judged(outcomes: Sequence[Outcome]) -> list[Judged]:
    """Look at the data behind each priced outcome, and at what its curve says of the measurement."""
    against = disturbed([outcome.run for outcome in outcomes], bundled_runs())
    found = []
    for outcome in outcomes:
        if outcome.kind != PRICED:
            found.append(Judged(outcome))
            continue
        confidence = confidence_of(outcome.run)
        found.append(Judged(outcome, confidence.grade, doubts_of(outcome.run, confidence, against)))
    return found


def scored(found: Iterable[Judged]) -> list[Scored]:
    """Give every priced run a front end that was fitted on clean runs of other models."""
    priced = [one for one in found if one.outcome.kind == PRICED]
    clean = [one.outcome for one in priced if not one.doubts]
    ends = left_out([one.outcome for one in priced], clean)
    return [Scored(one, ends[one.outcome.run.id]) for one in priced]


def confidence_of(run: MeasuredRun) -> Confidence:
    """Judge the data of all engines of a run; those of one that cannot be timed are worth nothing."""
    found = Confidence()
    for pool in run.pools:
        key = aic_engine_key(parse_model(AicConfig, aic_settings(run, pool), ""))
        try:
            found |= engine_confidence(key, MAX_NUM_BATCHED_TOKENS, run.isl + run.osl)
        except TimingError as error:
            found |= Confidence((Finding("low", f"cannot be timed: {error}"),))
    return found


def doubts_of(run: MeasuredRun, confidence: Confidence, against: Mapping[str, str]) -> tuple[str, ...]:
    """Say why a run is not clean; `against` has what its own curve says against it."""
    widest = max(pool.gpus_per_worker for pool in run.pools)
    wide = (f"a worker of {widest} GPUs",) if widest > MOST_GPUS and not run.is_pair else ()
    contradicted = (against[run.id],) if run.id in against else ()
    return (*confidence.implausible, *wide, *contradicted)
