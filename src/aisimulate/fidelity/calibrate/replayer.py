"""Replays the requests of a log with candidate pass times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.config.timing import LinearTiming
from aisimulate.core.collector import paused_collector
from aisimulate.core.units import NS_PER_MS
from aisimulate.fidelity.measured.run import per_gap
from aisimulate.replay.build import build_replay
from aisimulate.replay.execute import explained_limits
from aisimulate.replay.observe.hub import Hub
from aisimulate.workload.drivers import make_driver

if TYPE_CHECKING:
    from aisimulate.config.payload import Execution
    from aisimulate.core.traffic import Workload
    from aisimulate.engine.sequence import Sequence
    from aisimulate.fidelity.calibrate.pass_log import PassLog
    from aisimulate.fidelity.measured.run import Floats
    from aisimulate.workload.drivers import Driver


@dataclass(frozen=True, slots=True)
class Candidate:
    """Pass times to try: factors on those of the settings, or a step model in their place."""

    timing_mode: str
    prefill_scale: float = 1.0
    decode_scale: float = 1.0
    step_model: LinearTiming | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of the requests, in the order of the log, in ms; NaN where one did not complete."""

    arrival_ms: Floats
    scheduled_ms: Floats
    first_token_ms: Floats
    last_token_ms: Floats
    tpot_ms: Floats

    @property
    def ttft_ms(self) -> Floats:
        """Time to first token."""
        return self.first_token_ms - self.arrival_ms

    @property
    def e2e_ms(self) -> Floats:
        """Time from arrival to last token."""
        return self.last_token_ms - self.arrival_ms

    def later(self, offset_ms: float) -> Replayed:
        """Give the same as clients see it that hear of everything so much later."""
        return replace(
            self,
            first_token_ms=self.first_token_ms + offset_ms,
            last_token_ms=self.last_token_ms + offset_ms,
        )


class LogReplayer:
    """Replays one traffic on one engine; equal candidates are replayed once.

    `execution` is a checked payload of an aggregated deployment, whose own requests do not matter.
    """

    def __init__(self, execution: Execution, workload: Workload) -> None:
        self._execution = execution
        self._workload = workload
        self._known: dict[Candidate, Replayed] = {}

    @property
    def replays(self) -> int:
        """Candidates replayed so far."""
        return len(self._known)

    def replay(self, candidate: Candidate) -> Replayed:
        """Replay a candidate. Raises what replays raise."""
        known = self._known.get(candidate)
        if known is None:
            known = self._known[candidate] = self._run(candidate, None)
        return known

    def watch(self, candidate: Candidate, passes: PassLog) -> Replayed:
        """Replay a candidate and tell `passes` of its passes, which nobody can see with a look-ahead."""
        return self._run(candidate, passes)

    def _run(self, candidate: Candidate, passes: PassLog | None) -> Replayed:
        changes = {} if passes is None else {"scheduling_look_ahead": 0}
        execution = with_candidate(self._execution, candidate, **changes)
        hub = None if passes is None else Hub([passes])
        with explained_limits(), paused_collector():
            built = build_replay(execution, hub, drive=self._drive)
            built.fleet.run()
            return _replayed(built.driver.sequences)

    def _drive(self, workload: Workload, block_tokens: int) -> Driver:
        del workload  # of the settings
        return make_driver(self._workload, block_tokens)


def with_candidate(execution: Execution, candidate: Candidate, **settings: object) -> Execution:
    """Put the pass times of a candidate into a checked payload, and other `settings` of its rank."""
    changes: dict[str, object] = {
        **settings,
        "timing_mode": candidate.timing_mode,
        "prefill_scale": candidate.prefill_scale,
        "decode_scale": candidate.decode_scale,
    }
    if candidate.step_model is not None:
        changes["timing_model"] = candidate.step_model
    engine = execution.spec.engine
    rank = engine.rank.model_copy(update=changes)
    spec = execution.spec.model_copy(update={"engine": engine.model_copy(update={"rank": rank})})
    return replace(execution, spec=spec)


def _replayed(sequences: list[Sequence]) -> Replayed:
    ordered: list[Sequence | None] = [None] * len(sequences)
    for sequence in sequences:
        ordered[int(sequence.turn.request_id or 0)] = sequence
    told = [sequence for sequence in ordered if sequence is not None]
    first = _instants([sequence.first_token_ns for sequence in told])
    last = _instants([sequence.last_token_ns for sequence in told])
    outputs = np.array([sequence.output_tokens for sequence in told], dtype=np.float64)
    return Replayed(
        arrival_ms=np.array([sequence.arrival_ns / NS_PER_MS for sequence in told]),
        scheduled_ms=_instants([s.admissions[0][0] if s.admissions else None for s in told]),
        first_token_ms=first,
        last_token_ms=last,
        tpot_ms=per_gap(last - first, outputs),
    )


def _instants(values_ns: list[int | None]) -> Floats:
    return np.array([np.nan if value is None else value / NS_PER_MS for value in values_ns])
