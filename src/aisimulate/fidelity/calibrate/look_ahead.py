"""Whether an engine plans one pass ahead: tried both ways where a log can tell (spec 07 section 4.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from aisimulate.core.errors import InputError, UnsupportedError
from aisimulate.replay.look_ahead_rules import require_look_ahead

if TYPE_CHECKING:
    from aisimulate.config.payload import Execution
    from aisimulate.fidelity.calibrate.request_log import RequestLog

LookAhead = Literal["0", "1", "best"]
CHOICES: tuple[LookAhead, ...] = ("0", "1", "best")

FIELD = "scheduling_look_ahead"


def look_aheads(
    log: RequestLog, execution: Execution, asked: LookAhead | None
) -> tuple[list[Execution], list[str]]:
    """Give the settings to try, first those to begin with, and a note for one that cannot be tried.

    Not asked for, both ways are tried where the log tells when requests were scheduled, which shows the
    difference, and the settings leave it open. Raises `InputError` for what contradicts the settings,
    `UnsupportedError` for a look-ahead that is not built beside them.
    """
    rank = execution.spec.engine.rank
    own, is_given = rank.scheduling_look_ahead, FIELD in rank.model_fields_set
    if asked in (None, "best"):
        tries_both = asked == "best" or (log.scheduled_ms is not None and not is_given)
        return _both(execution, own, told=asked is not None) if tries_both else ([execution], [])
    if is_given and int(asked) != own:
        raise InputError(f"--look-ahead {asked}: the engine settings say {own}")
    return [_planned(execution, int(asked))], []


def _both(execution: Execution, own: int, *, told: bool) -> tuple[list[Execution], list[str]]:
    try:
        return [execution, _planned(execution, 1 - own)], []
    except UnsupportedError as error:
        return [execution], [f"a look-ahead was not tried: {error}"] if told else []


def _planned(execution: Execution, look_ahead: int) -> Execution:
    engine = execution.spec.engine
    rank = engine.rank.model_copy(update={FIELD: look_ahead})
    spec = execution.spec.model_copy(update={"engine": engine.model_copy(update={"rank": rank})})
    require_look_ahead(spec)
    return replace(execution, spec=spec)
