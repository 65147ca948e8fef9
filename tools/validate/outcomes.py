"""What came of each run: exactly one outcome, with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.replay.execute import execute
from tools.validate.bundled import bundled_runs
from tools.validate.deployments import payload_of
from tools.validate.repeats import set_aside
from tools.validate.runs import MeasuredRun

PRICED, FAILED, REFUSED, SET_ASIDE = KINDS = ("priced", "failed", "refused", "set aside")
_CHUNK = 4  # neighbours share an engine, which a process loads once


@dataclass(frozen=True, slots=True)
class Outcome:
    """`kind` is one of `KINDS`; times are simulated ms, where priced."""

    run: MeasuredRun
    kind: str
    reason: str = ""
    ttft_ms: float = 0.0
    tpot_ms: float = 0.0

    @property
    def ttft_error(self) -> float:
        """Simulated / measured - 1."""
        return self.ttft_ms / self.run.ttft_ms - 1.0

    @property
    def tpot_error(self) -> float:
        """Simulated / measured - 1."""
        return self.tpot_ms / self.run.tpot_ms - 1.0


def outcomes_of(runs: Sequence[MeasuredRun], processes: int = 1) -> list[Outcome]:
    """Replay what can be replayed; one outcome per run, in the order of `runs`."""
    reasons = set_aside(runs, bundled_runs())
    replayed = [run for run in runs if run.id not in reasons]
    replayed.sort(key=lambda run: repr(run.curve))
    with _mapping(processes) as each:
        found = {outcome.run.id: outcome for outcome in each(outcome_of, replayed)}
    return [Outcome(run, SET_ASIDE, reasons[run.id]) if run.id in reasons else found[run.id] for run in runs]


def outcome_of(run: MeasuredRun) -> Outcome:
    """Replay one run. What the input is to blame for is refused, what the performance data lack fails."""
    try:
        report = execute(payload_of(run))
    except InputError as error:
        return Outcome(run, REFUSED, str(error))
    except AISimulateError as error:
        return Outcome(run, FAILED, str(error))
    if report["mean_ttft_ms"] is None or report["mean_tpot_ms"] is None:
        return Outcome(run, FAILED, "no request completed")
    return Outcome(run, PRICED, "", float(report["mean_ttft_ms"]), float(report["mean_tpot_ms"]))


@contextmanager
def _mapping(processes: int) -> Iterator[object]:
    """Give a `map` over one process or several; the order of results is that of the arguments."""
    if processes == 1:
        yield map
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        yield lambda call, values: pool.map(call, values, chunksize=_CHUNK)
