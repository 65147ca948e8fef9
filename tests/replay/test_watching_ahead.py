"""Replays that look one pass ahead, watched: in runs as pass by pass, and as the oracle has it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisimulate.engine.watch import WatchedWorker
from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker
from aisimulate.replay.observe.forward_passes import ForwardPassLog
from aisimulate.replay.observe.telemetry import Telemetry
from aisimulate.replay.observe.timeline import Timeline
from engine.test_differential import budget
from engine.test_look_ahead import (
    PAIRS,
    SGLANG_PAIRS,
    ahead,
    ahead_pair,
    ahead_scenarios,
    ahead_sglang,
    sglang_with_drafts,
    with_drafts,
)
from oracle.passes import Seen, passes_of
from oracle.sglang_strategies import (
    crowded_draft_scenarios,
    crowded_scenarios,
    sglang_echo_scenarios,
    sglang_scenarios,
)
from oracle.strategies import (
    echo_scenarios,
    eviction_scenarios,
    long_prompt_scenarios,
    outgrowing_scenarios,
    scenarios,
)

from .observed import payload, simulated_part
from .test_telemetry import Ticks
from .test_timeline import stages

if TYPE_CHECKING:
    from oracle.strategies import Scenario

KINDS = (scenarios, echo_scenarios, long_prompt_scenarios, outgrowing_scenarios, eviction_scenarios)
SCENARIOS = st.one_of(
    *(kind().map(ahead) for kind in KINDS),
    st.one_of(scenarios(), outgrowing_scenarios()).map(with_drafts),
    st.one_of(sglang_scenarios(), crowded_draft_scenarios()).map(sglang_with_drafts),
    st.one_of(sglang_scenarios(), sglang_echo_scenarios(), crowded_scenarios()).map(ahead_sglang),
)


def observed(asked: dict[str, Any], interval_ms: float) -> tuple[dict[str, Any], list, list, list]:
    """The report, samples, forward passes and stages of requests of a replay that keeps the invariants."""
    samples: list[dict[str, Any]] = []
    ticks, timeline = Ticks(interval_ms), Timeline()
    watchers = [Telemetry(interval_ms, samples.append), ticks, timeline, InvariantChecker(thorough=True)]
    report = execute(asked, observers=watchers)
    events = timeline.document()["traceEvents"]
    return report, samples, ticks.ticks, [event for event in events if event.get("cat") == "request"]


def pass_by_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers decide at the end of every pass."""
    start = WatchedWorker.start

    def start_one(worker: Any, now_ns: int) -> bool:
        started = start(worker, now_ns)
        if started:
            worker.cut(now_ns + 1)
        return started

    monkeypatch.setattr(WatchedWorker, "start", start_one)


@budget(300)
@given(SCENARIOS, st.sampled_from([0.7, 2.5, 4.0, 20.0]))
def test_runs_are_watched_like_single_passes(scenario: Scenario, interval_ms: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asked = scenario.materialise(Path(folder))
        in_runs = observed(asked, interval_ms)
        with pytest.MonkeyPatch.context() as monkeypatch:
            pass_by_pass(monkeypatch)
            in_passes = observed(asked, interval_ms)
        assert simulated_part(in_runs[0]) == simulated_part(execute(asked))
        assert in_runs[1:] == in_passes[1:]


@budget(150)
@given(st.one_of(PAIRS.map(ahead_pair), SGLANG_PAIRS.map(ahead_pair), ahead_scenarios()))
def test_watching_changes_nothing_and_all_rules_hold(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asked = scenario.materialise(Path(folder))
        timeline = Timeline()
        watched = execute(
            asked, observers=[Telemetry(4.0, print_nothing), timeline, InvariantChecker(thorough=True)]
        )
        assert simulated_part(watched) == simulated_part(execute(asked))
        stages(timeline.document())


def print_nothing(sample: dict[str, Any]) -> None:
    """A sink for samples that nobody wants."""


FIRST, SECOND = (0.0, 8, 5), (5.0, 9, 2)  # (arrival in ms, input tokens, output tokens)


def test_a_request_that_is_planned_is_not_in_the_queue_any_more() -> None:
    """Passes end at 10, 15 (one decode), 30 (mixed): the second is planned at 10, and begins at 15."""
    asked = payload([FIRST, SECOND], scheduling_look_ahead=1)
    _, samples, ticks, events = observed(asked, 4.0)
    waiting = {s["sampled_at_ms"]: s["decode_scheduler_metrics"][0]["waiting_requests"] for s in samples}
    # A gauge is as of the last end of a pass, or the last request that was queued.
    assert [waiting[at_ms] for at_ms in (4.0, 8.0, 12.0, 16.0)] == [1, 1, 1, 0]
    begins = {(event["tid"], event["name"]): event["ts"] / 1000 for event in events if event["ph"] == "B"}
    assert begins == {
        (1, "queued"): 0.0,
        (1, "prefill"): 0.0,
        (1, "decode"): 10.0,
        (2, "queued"): 5.0,
        (2, "prefill"): 10.0,
        (2, "decode"): 30.0,
    }
    seen = [(at_ms, item) for at_ms, items in ticks for item in items]
    named = [
        (at, i["num_prefill_requests"], i["num_decode_requests"], i["num_queued_prefill"]) for at, i in seen
    ]
    # The pass up to 15 was planned at 0, when nobody waited; when it began the second had been planned, too.
    assert named[:3] == [(12.0, 1, 0, 0), (16.0, 0, 1, 0), (32.0, 1, 1, 0)]


def test_who_gets_the_last_token_keeps_the_seat_to_the_end_of_the_pass() -> None:
    """Prefill to 10, decode to 15, which is the last pass: planned at 0, and the request is gone at 15."""
    asked = payload([(0.0, 8, 2)], scheduling_look_ahead=1)
    _, samples, _, _ = observed(asked, 4.0)
    running = {s["sampled_at_ms"]: s["decode_scheduler_metrics"][0]["running_requests"] for s in samples}
    assert running == {0.0: 0, 4.0: 0, 8.0: 0, 12.0: 1, 15.0: 0}


@pytest.mark.parametrize("backend", ["vllm", "sglang"])
def test_accepted_drafts_make_a_forward_longer(backend: str) -> None:
    """As without look-ahead: the first burst ends the prefill, of the last one a single token is needed."""
    drafts = {"backend": backend, "aic_nextn": 2, "aic_nextn_accept_rates": "1,1", "scheduling_look_ahead": 1}
    _, samples, _, _ = observed(payload([(0.0, 8, 7)], **drafts), 1000.0)
    traffic = samples[-1]["traffic"]
    assert (traffic["accept_length_forward_count"], traffic["avg_accept_length"]) == (2, 3.0)


def test_a_run_of_passes_is_one_slice() -> None:
    timeline = Timeline()
    execute(payload([(0.0, 8, 30)], scheduling_look_ahead=1), observers=[timeline])
    slices = [event for event in timeline.document()["traceEvents"] if event.get("cat") == "passes"]
    assert [event["args"]["passes"] for event in slices][:1] == [1]
    assert sum(event["args"]["passes"] for event in slices) == 30
    assert len(slices) <= 4


class EveryPass(ForwardPassLog):
    """Keeps all passes with their ends, instead of the latest ones."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Seen] = []

    def ended(self, worker: WatchedWorker, terminal: list[Any]) -> None:
        super().ended(worker, terminal)
        for item in self.collect(self._now_ns):
            if item.worker_id == worker.index:
                duration_ns = round(item.wall_time * 1e9)
                counts = (
                    item.num_prefill_requests,
                    item.sum_prefill_tokens,
                    item.num_decode_requests,
                    item.sum_decode_kv_tokens,
                    item.num_queued_prefill,
                    item.num_queued_decode,
                )
                self.seen.append(Seen(worker.index, item.dp_rank, self._now_ns, duration_ns, *counts))


@budget(200)
@given(st.one_of(kind().map(ahead) for kind in KINDS))
def test_a_planner_sees_the_passes_of_the_oracle(scenario: Scenario) -> None:
    """Each pass that a decision follows; the oracle has all of them."""
    with tempfile.TemporaryDirectory() as folder:
        asked = scenario.materialise(Path(folder))
        every = EveryPass()
        with pytest.MonkeyPatch.context() as monkeypatch:
            pass_by_pass(monkeypatch)
            execute(asked, observers=[every])
        told = [item for item in passes_of(asked) if item.duration_ns]
    assert sorted(item for item in every.seen if item.duration_ns) == sorted(told)
