"""Run one replay from its payload to its report."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aisimulate.config.payload import parse_payload
from aisimulate.core.collector import paused_collector
from aisimulate.core.errors import ReplayError, UnsupportedError
from aisimulate.replay.build import build_replay
from aisimulate.replay.client import ClientView
from aisimulate.replay.disagg_fleet import DisaggFleet
from aisimulate.replay.observe.hub import Hub
from aisimulate.replay.outcome import ReplayOutcome
from aisimulate.replay.report import build_report
from aisimulate.workload.drivers import is_closed_loop, plays_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aisimulate.replay.build import BuiltReplay
    from aisimulate.replay.observe.hub import Observer
    from aisimulate.replay.scaling import ScalingPolicy


def execute(
    payload: str | Mapping[str, Any],
    *,
    observers: Sequence[Observer] = (),
    scaling: ScalingPolicy | None = None,
) -> dict[str, Any]:
    """Replay a payload (JSON text or the same as a mapping) and return its report.

    The flat report of spec 02 section 8, plus `per_request` when the payload asks for records. Observers see
    the replay happen (`Telemetry`, `Timeline`, `InvariantChecker`, ...); they never change its results.
    `scaling` decides how many workers there are, in place of what the payload names.
    Raises `InputError`, `UnsupportedError`, `TimingError` or `ReplayError`, each with a one-line text.
    """
    with explained_limits(), paused_collector():
        # A function of its own: all that it made is freed before the collector could look through it.
        return _execute(payload, observers, scaling)


@contextmanager
def explained_limits() -> Iterator[None]:
    """Say in one line that a replay needs more memory or larger numbers than there are."""
    try:
        yield
    except MemoryError:
        raise ReplayError(
            "out of memory: the replay needs more than this process may use; try fewer or shorter requests"
        ) from None
    except OverflowError as error:
        raise ReplayError("a time or count grew beyond 64 bits") from error


def _execute(
    payload: str | Mapping[str, Any], observers: Sequence[Observer], scaling: ScalingPolicy | None
) -> dict[str, Any]:
    started = time.perf_counter_ns()
    hub = Hub(observers) if observers else None
    execution = parse_payload(payload)
    replay = build_replay(execution, hub, scaling)
    if hub is not None and not hub.has_begun:
        raise UnsupportedError("a replay of this kind cannot be watched yet")
    outcome = run_built(replay, started)
    report = build_report(outcome, record_per_request=replay.record_per_request)
    for observer in observers:
        observer.reported(outcome, report)
    return report


def run_built(replay: BuiltReplay, started: int) -> ReplayOutcome:
    """Run a replay that is wired up; `started` is the instant of real time (ns) from which it counts."""
    replay.fleet.run()
    gap_logs = [worker.close() for worker in replay.workers]
    return ReplayOutcome(
        sequences=replay.driver.sequences,
        gap_logs=gap_logs,
        end_ns=replay.fleet.end_ns,
        workers=len(replay.workers) - replay.prefill_workers,
        dp_size=replay.dp_size,
        gpus_per_worker=replay.gpus_per_worker,
        wall_ns=time.perf_counter_ns() - started,
        passes=sum(worker.passes for worker in replay.workers),
        plans=sum(worker.plans for worker in replay.workers),
        sla=replay.sla,
        timing_mode=replay.timing_mode,
        provenance=replay.provenance,
        notes=replay.notes,
        plays=plays_of(replay.driver),
        settled=replay.settled,
        tiers=replay.tiers.report(replay.fleet.end_ns) if replay.tiers is not None else {},
        prefill_workers=replay.prefill_workers,
        prefill_dp_size=replay.prefill_dp_size,
        prefill_gpus_per_worker=replay.prefill_gpus_per_worker,
        scaling=None if replay.scaler is None else replay.scaler.outcome(replay.fleet.end_ns),
        routes=replay.routes,
        look_ahead=replay.look_ahead,
        client=_client(replay),
        is_closed_loop=is_closed_loop(replay.driver),
    )


def _client(replay: BuiltReplay) -> ClientView | None:
    """Look at a replay that has ended, its gap logs closed, through its front end if it has one."""
    if replay.frontend is None:
        return None
    fleet = replay.fleet
    first_decode = fleet.first_decode if isinstance(fleet, DisaggFleet) else 0
    return ClientView.of(replay.frontend, replay.driver.sequences, fleet.workers, first_decode)
