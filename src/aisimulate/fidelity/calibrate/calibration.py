"""From a log and the settings of its engine to a calibration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.config.aic import aic_config
from aisimulate.config.calibration import (
    VERSION,
    Calibration,
    CalibrationError,
    CalibrationKey,
    CalibrationSource,
    StepModel,
    TimingMode,
)
from aisimulate.core.errors import InputError
from aisimulate.fidelity.calibrate.fit import Family, Fit, Scales, Steps, fit
from aisimulate.fidelity.calibrate.identified import doubts
from aisimulate.fidelity.calibrate.judged import check_fit, held_out_doubts
from aisimulate.fidelity.calibrate.look_ahead import LookAhead, look_aheads
from aisimulate.fidelity.calibrate.loss import Errors, errors
from aisimulate.fidelity.calibrate.offset import ttft_offset_ms
from aisimulate.fidelity.calibrate.replayer import Candidate, LogReplayer
from aisimulate.replay.calibrated import engine_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.config.payload import Execution
    from aisimulate.fidelity.calibrate.replayer import Replayed
    from aisimulate.fidelity.calibrate.request_log import RequestLog

MODES: tuple[TimingMode, ...] = ("additive", "fused", "half")
FIT_REQUESTS = 60
EVALUATIONS = 40
_DIGITS = 5
_SLACK = 1.1  # candidates may be slower than what was measured


@dataclass(frozen=True, slots=True)
class Options:
    """How to calibrate. `timing_mode` None lets the training loss choose; `evaluations` replays for a search.

    `look_ahead` `best` lets it choose as well, None does so where the log can tell and the settings do not.
    `model`, `system` and `engine_version` name what the settings do not tell.
    """

    fit_requests: int = FIT_REQUESTS
    timing_mode: TimingMode | None = None
    look_ahead: LookAhead | None = None
    table_free: bool = False
    evaluations: int = EVALUATIONS
    model: str | None = None
    system: str | None = None
    engine_version: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A calibration, and how far replays are off before and after it.

    `before` are the settings as they are; None without tables. Of both, the errors of the fitted requests
    come first and those of the held-out ones second; None where none is left.
    """

    calibration: Calibration
    before: tuple[Errors, Errors | None] | None
    after: tuple[Errors, Errors | None]
    losses: tuple[tuple[str, float], ...]
    fitted: int
    held_out: int
    replays: int


@dataclass(frozen=True, slots=True)
class _Trial:
    """The best fit of one look-ahead, with all fits tried and the replays of what they were tried on."""

    execution: Execution
    replayer: LogReplayer
    trials: LogReplayer
    fits: list[Fit]

    @property
    def best(self) -> Fit:
        return min(self.fits, key=lambda one: one.loss)

    @property
    def look_ahead(self) -> int:
        return self.execution.spec.engine.rank.scheduling_look_ahead

    @property
    def replays(self) -> int:
        return self.trials.replays


def calibrate(log: RequestLog, execution: Execution, options: Options) -> Outcome:
    """Fit pass times to the first requests of a log; deterministic.

    Raises `InputError` when the settings do not suit or what is found cannot be, and what replays raise.
    """
    _key(execution, options)  # refuses options that contradict the settings before anything is replayed
    count = min(options.fit_requests, len(log))
    ways, notes = look_aheads(log, execution, options.look_ahead)
    tried = [_tried(log, ways[0], options, count, _families(execution, options))]
    for other in ways[1:]:
        # How mixed passes are timed hardly depends on when they were planned.
        tried.append(_tried(log, other, options, count, [_family(tried[0].best.candidate, options)]))
    chosen = min(tried, key=lambda trial: trial.best.loss)
    best, replayer = chosen.best, chosen.replayer
    replayed = replayer.replay(best.candidate)
    offset_ms = ttft_offset_ms(log, replayed, count)
    after = _both(log, replayed.later(offset_ms), count)
    check_fit(log, best.candidate, offset_ms, tuple(part for part in after if part is not None))
    notes += [*doubts(log, chosen.trials, count, best), *held_out_doubts(*after)]
    plain = Candidate(execution.spec.engine.rank.timing_mode)
    calibration = _calibration(log, chosen.execution, options, best, after, notes, count)
    return Outcome(
        calibration=calibration.model_copy(update={"ttft_offset_ms": offset_ms}),
        before=None if options.table_free else _both(log, tried[0].replayer.replay(plain), count),
        after=after,
        losses=_losses(tried),
        fitted=count,
        held_out=len(log) - count,
        replays=sum(trial.replays for trial in tried),
    )


def _tried(
    log: RequestLog, execution: Execution, options: Options, count: int, families: Sequence[Family]
) -> _Trial:
    replayer = LogReplayer(execution, log.workload())
    met = _met(log, count)
    trials = replayer if met == len(log) else LogReplayer(execution, log.workload(met))
    fits = [fit(log, trials, count, family, options.evaluations) for family in families]
    return _Trial(execution, replayer, trials, fits)


def _families(execution: Execution, options: Options) -> list[Family]:
    if options.table_free:
        return [Steps()]
    return [Scales(mode) for mode in _modes(execution, options)]


def _family(candidate: Candidate, options: Options) -> Family:
    return Steps() if options.table_free else Scales(candidate.timing_mode)


def _losses(tried: Sequence[_Trial]) -> tuple[tuple[str, float], ...]:
    """Name each fit by its way to time mixed passes, and by its look-ahead where two were tried."""
    both = len(tried) > 1
    endings = [" with look-ahead" if both and trial.look_ahead else "" for trial in tried]
    return tuple(
        (one.candidate.timing_mode + ending, one.loss)
        for trial, ending in zip(tried, endings, strict=True)
        for one in trial.fits
    )


def _met(log: RequestLog, count: int) -> int:
    """Count the requests that the first `count` may have met: who came until the last of them ended."""
    until_ms = _SLACK * float(np.max(log.last_token_ms[:count]))
    return max(count, int(np.searchsorted(log.arrival_ms, until_ms, side="right")))


def _modes(execution: Execution, options: Options) -> tuple[TimingMode, ...]:
    if execution.spec.engine.rank.backend == "sglang":
        if options.timing_mode not in (None, "additive"):
            raise InputError(f"--timing-mode {options.timing_mode}: sglang never mixes passes")
        return ("additive",)
    return MODES if options.timing_mode is None else (options.timing_mode,)


def _both(log: RequestLog, replayed: Replayed, count: int) -> tuple[Errors, Errors | None]:
    rest = errors(log, replayed, slice(count, None)) if len(log) > count else None
    return errors(log, replayed, slice(0, count)), rest


def _calibration(
    log: RequestLog,
    execution: Execution,
    options: Options,
    best: Fit,
    after: tuple[Errors, Errors | None],
    notes: list[str],
    count: int,
) -> Calibration:
    candidate = best.candidate
    model = candidate.step_model
    training_error, held_out_error = map(_told, after)
    return Calibration(
        version=VERSION,
        key=_key(execution, options),
        prefill_scale=candidate.prefill_scale,
        decode_scale=candidate.decode_scale,
        timing_mode=_mode(execution, candidate),
        scheduling_look_ahead=execution.spec.engine.rank.scheduling_look_ahead,
        step_model=None if model is None else StepModel(**model.model_dump(exclude={"type"})),
        training_error=training_error,
        held_out_error=held_out_error,
        source=CalibrationSource(
            file=log.file,
            sha256=log.sha256,
            format=log.format,
            requests=count,
            engine_version=options.engine_version,
        ),
        notes=tuple(notes),
    )


def _told(found: Errors | None) -> CalibrationError:
    values = {} if found is None else asdict(found)
    return CalibrationError(**{name: round(v, _DIGITS) for name, v in values.items() if v is not None})


def _mode(execution: Execution, candidate: Candidate) -> TimingMode | None:
    if execution.spec.engine.rank.backend == "sglang":
        return None
    return next(mode for mode in MODES if mode == candidate.timing_mode)


def _key(execution: Execution, options: Options) -> CalibrationKey:
    """Name the engine; what the settings tell may not be told otherwise by the options."""
    role = execution.spec.engine.role(None)
    key = engine_of(role, aic_config(role.rank))
    changes = {}
    for name in ("model", "system"):
        own, told = getattr(key, name), getattr(options, name)
        if told is None:
            continue
        if own not in (None, told):
            raise InputError(f"--{name} {told}: the engine settings say {own}")
        changes[name] = told
    return key.model_copy(update=changes)
