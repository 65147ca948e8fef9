"""Replays that do less than all, for searches: closed loops until they settle, the first rows of traces.

What is left of a closed loop that has settled would be like its last two waves, so the means and rates of a
full report follow from them; percentiles do not, and are left out (spec 08 section 4.1). A cut trace ranks
deployments as the whole one does, but its figures are its own (section 4.2).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aisimulate.config.payload import parse_payload
from aisimulate.core.collector import paused_collector
from aisimulate.core.units import NS_PER_MS
from aisimulate.replay.build import build_replay
from aisimulate.replay.execute import explained_limits, run_built
from aisimulate.replay.frontend import frontend_of
from aisimulate.replay.gaps import summarize_gaps
from aisimulate.replay.parts import EARLY_STOP_KEY, FEWEST_WAVES, FIRST_SESSIONS_KEY
from aisimulate.replay.report import MS_PER_HOUR, build_report
from aisimulate.workload.drivers import make_driver
from aisimulate.workload.graph import AgenticWorkload
from aisimulate.workload.sessions import first_sessions
from aisimulate.workload.wave_driver import Settled, WaveDriver, mean_wave

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.config.spec import ReplaySpec
    from aisimulate.core.traffic import Workload
    from aisimulate.replay.build import BuiltReplay
    from aisimulate.replay.gaps import GapSummary
    from aisimulate.workload.drivers import Driver, DriverMaker
    from aisimulate.workload.wave_driver import Waves

# A pool whose waves are watched keeps its requests, and more take too much memory; pairs keep them anyway.
_MOST_REQUESTS = 1 << 18

# Of what the last request of a replay is spared, the share that those of its wave are on average.
_SPARED_ON_AVERAGE = 0.45


def execute_until_settled(payload: str | Mapping[str, Any]) -> dict[str, Any]:
    """Replay a payload until it has settled; return its report.

    A replay that settles has a report of means and rates, and `EARLY_STOP_KEY`; any other one is replayed to
    its end and has the full report. Raises like `execute`.
    """
    with explained_limits(), paused_collector():
        return _until_settled(payload)  # a function of its own, as in `execute`


def _until_settled(payload: str | Mapping[str, Any]) -> dict[str, Any]:
    started = time.perf_counter_ns()
    execution = parse_payload(payload)
    replay = build_replay(execution, drive=_driver_maker(execution.spec))
    try:
        return build_report(run_built(replay, started), record_per_request=False)
    except Settled as settled:
        return _report(replay, settled.waves)


def _driver_maker(spec: ReplaySpec) -> DriverMaker:
    """Choose how waves are watched. Not what clients see of them: with a front end all is replayed."""
    if _has_frontend(spec):
        return make_driver
    return _drive_pair if spec.topology.kind == "disaggregated" else _drive_pool


def _has_frontend(spec: ReplaySpec) -> bool:
    """Whether clients may see something else than engines do."""
    has_ratios = spec.calibration is not None and bool(spec.calibration.points)
    return has_ratios or frontend_of(spec) is not None


def execute_first_sessions(payload: str | Mapping[str, Any], count: int) -> dict[str, Any]:
    """Replay the `count` sessions of a trace that arrive first; the report has `FIRST_SESSIONS_KEY` then.

    A trace that is no longer, or one of requests that wait for others, is replayed as a whole. Raises like
    `execute`.
    """
    cut = False

    def drive(workload: Workload, block_tokens: int) -> Driver:
        nonlocal cut
        if not isinstance(workload, AgenticWorkload) and len(workload.sessions) > count:
            cut = True
            workload = replace(workload, sessions=first_sessions(workload.sessions, count))
        return make_driver(workload, block_tokens)

    with explained_limits(), paused_collector():
        report = _driven(payload, drive)
    return report | {FIRST_SESSIONS_KEY: count} if cut else report


def _driven(payload: str | Mapping[str, Any], drive: DriverMaker) -> dict[str, Any]:
    started = time.perf_counter_ns()
    replay = build_replay(parse_payload(payload), drive=drive)
    return build_report(run_built(replay, started), record_per_request=False)


def _drive_pool(workload: Workload, block_tokens: int) -> Driver:
    """Watch the waves of a loop that is not too long."""
    if len(workload.sessions) > _MOST_REQUESTS:
        return make_driver(workload, block_tokens)
    return _drive_pair(workload, block_tokens)


def _drive_pair(workload: Workload, block_tokens: int) -> Driver:
    """Watch the waves of single requests in a closed loop."""
    cap, count = workload.concurrency, len(workload.sessions)
    if cap is None or FEWEST_WAVES * cap > count:
        return make_driver(workload, block_tokens)
    if any(len(session.turns) > 1 for session in workload.sessions[:1]):
        return make_driver(workload, block_tokens)
    return WaveDriver(workload, block_tokens)


def _report(replay: BuiltReplay, waves: Waves) -> dict[str, Any]:
    """Say what the report of the whole replay would say."""
    wave, done, total, left = waves.mean, waves.done, waves.total, waves.left
    gaps = summarize_gaps([worker.close() for worker in replay.workers])
    spared_ms = 0.0 if replay.prefill_workers else _spared_at_the_end_ms(waves, gaps.itl_ms.median)
    duration_ms = waves.end_ns / NS_PER_MS + left * wave.e2e_ms / waves.cap - spared_ms
    inputs = sum(s.input_tokens for s in done) * total / len(done)
    outputs = sum(s.tokens - s.input_tokens for s in done) * total / len(done)
    mine = mean_wave(done)
    seconds = duration_ms / 1e3
    return {
        "num_requests": total,
        "completed_requests": total,
        "duration_ms": duration_ms,
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput_rps": total / seconds,
        "input_throughput_tok_s": inputs / seconds,
        "output_throughput_tok_s": outputs / seconds,
        "total_throughput_tok_s": (inputs + outputs) / seconds,
        "gpu_hours": _gpus(replay) * duration_ms / MS_PER_HOUR,
        "mean_ttft_ms": mine.ttft_ms + (wave.ttft_ms - mine.ttft_ms) * left / total,
        "mean_e2e_latency_ms": mine.e2e_ms
        + ((wave.e2e_ms - mine.e2e_ms) * left - _SPARED_ON_AVERAGE * spared_ms * waves.cap) / total,
        "mean_tpot_ms": mine.tpot_ms + (wave.tpot_ms - mine.tpot_ms) * left / total,
        "mean_output_token_throughput_per_user": _user_rate(gaps, mine.tpot_ms, wave.tpot_ms, left / total),
        EARLY_STOP_KEY: len(done),
    }


def _spared_at_the_end_ms(waves: Waves, pure_gap_ms: float) -> float:
    """Tell how much sooner the last request ends because no prompt of another wave holds it up.

    That is what prompts add to its gaps, and not more than the time in which one wave gives way to the next.
    """
    last = waves.done[-1]
    gaps = last.tokens - last.input_tokens - 1
    held_up_ms = gaps * max(0.0, waves.mean.tpot_ms - pure_gap_ms)
    return float(min(held_up_ms, waves.spread_ns / NS_PER_MS))


def _user_rate(gaps: GapSummary, tpot_ms: float, later_tpot_ms: float, later_share: float) -> float:
    """Return the mean rate of tokens, that of the waves to come following from their times per token."""
    mean = gaps.rate_tok_s.mean
    later = mean * tpot_ms / later_tpot_ms if later_tpot_ms > 0 else mean
    return mean + (later - mean) * later_share


def _gpus(replay: BuiltReplay) -> int:
    decode_workers = len(replay.workers) - replay.prefill_workers
    return decode_workers * replay.gpus_per_worker + replay.prefill_workers * replay.prefill_gpus_per_worker
