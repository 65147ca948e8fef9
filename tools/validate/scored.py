"""Priced runs with what is known of the data behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.config.aic import AicConfig
from aisimulate.config.messages import parse_model
from aisimulate.core.errors import TimingError
from aisimulate.replay.capacity import aic_engine_key
from aisimulate.timing.aic.health import Confidence, engine_confidence
from tools.validate.deployments import MAX_NUM_BATCHED_TOKENS, aic_settings
from tools.validate.outcomes import PRICED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tools.validate.front_end import FrontEnd
    from tools.validate.outcomes import Outcome
    from tools.validate.runs import MeasuredRun

MOST_GPUS = 8
"""Aggregated workers of more GPUs are several workers, or a shape that was put down wrongly."""


@dataclass(frozen=True, slots=True)
class Scored:
    """`doubts`: why a run is not clean, as defined after the data had been seen (spec 07 section 1)."""

    outcome: Outcome
    confidence: Confidence
    front_end: FrontEnd
    doubts: tuple[str, ...]

    @property
    def run(self) -> MeasuredRun:
        """What was measured."""
        return self.outcome.run

    @property
    def is_clean(self) -> bool:
        """Whether nothing speaks against its data or its shape."""
        return not self.doubts


def confidence_of(run: MeasuredRun) -> Confidence:
    """Judge the data of all engines of a run. Nothing is said of one that cannot be timed."""
    found = Confidence()
    for pool in run.pools:
        key = aic_engine_key(parse_model(AicConfig, aic_settings(run, pool), ""))
        try:
            found |= engine_confidence(key, MAX_NUM_BATCHED_TOKENS, run.isl + run.osl)
        except TimingError:
            continue
    return found


def doubts_of(run: MeasuredRun, confidence: Confidence, disturbed: Mapping[str, str]) -> tuple[str, ...]:
    """Say why a run is not clean; `disturbed` has what its own curve says against it."""
    widest = max(pool.gpus_per_worker for pool in run.pools)
    wide = (f"a worker of {widest} GPUs",) if widest > MOST_GPUS and not run.is_pair else ()
    against = (disturbed[run.id],) if run.id in disturbed else ()
    return (*confidence.implausible, *wide, *against)


def priced(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Those that have times."""
    return [outcome for outcome in outcomes if outcome.kind == PRICED]
