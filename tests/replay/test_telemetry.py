"""Telemetry and forward-pass metrics: as the reference has them, and the same with every pass an event."""

from __future__ import annotations

import io
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aisimulate.core.errors import InputError, UnsupportedError
from aisimulate.core.units import clock_ns
from aisimulate.engine.watch import WatchedWorker
from aisimulate.replay.execute import execute
from aisimulate.replay.observe.forward_passes import ForwardPassLog
from aisimulate.replay.observe.sinks import JsonLines
from aisimulate.replay.observe.telemetry import Telemetry
from oracle.sglang_strategies import crowded_draft_scenarios, sglang_scenarios
from oracle.strategies import Scenario, scenarios, turnstile_scenarios

from .case_files import payload_of
from .observed import payload, simulated_part

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[1] / "data/replay"
RECORDED = {case["name"]: case for case in json.loads((DATA / "telemetry.json").read_text())}


class Ticks(ForwardPassLog):
    """Asks for the latest passes at every multiple of the interval that comes before the end."""

    def __init__(self, interval_ms: float) -> None:
        super().__init__()
        self._interval_ms = interval_ms
        self.ticks: list[tuple[float, list[dict[str, Any]]]] = []

    def before(self, now_ns: int) -> None:
        self._collect_until(now_ns - 1)
        super().before(now_ns)

    def finish(self, end_ns: int) -> None:
        self._collect_until(end_ns - 1)

    def _collect_until(self, last_ns: int) -> None:
        while clock_ns(at_ms := (len(self.ticks) + 1) * self._interval_ms) <= last_ns:
            self.ticks.append((at_ms, [asdict(item) for item in self.collect(clock_ns(at_ms))]))


def observe(payload: dict[str, Any], interval_ms: float) -> tuple[dict[str, Any], list[dict], list]:
    samples: list[dict[str, Any]] = []
    ticks = Ticks(interval_ms)
    report = execute(payload, observers=[Telemetry(interval_ms, samples.append), ticks])
    return report, samples, ticks.ticks


# Against the reference --------------------------------------------------------------------------------


def recorded_payload(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    path = folder / "trace.jsonl"
    rows = [
        {"timestamp": at_ms, "input_length": isl, "output_length": osl, "hash_ids": ids}
        for at_ms, isl, osl, ids in case["requests"]
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    traffic = {"source_type": "trace", "trace_paths": [str(path)]}
    traffic["trace_block_size"] = case["engine"]["block_size"]
    if case["concurrency"]:
        traffic["replay_concurrency"] = case["concurrency"]
    spec = payload([], workers=case["workers"], dp_size=case["dp_size"], **case["engine"])
    spec["max_sim_time_ms"] = case["max_sim_time_ms"]
    return {"spec": spec, "traffic": traffic}


def compact(sample: dict[str, Any]) -> dict[str, Any]:
    """A sample as the recordings have it; cache lookups are left out, the reference reports none for vLLM."""
    names = ("active_blocks", "inactive_blocks", "running_requests", "waiting_requests")
    return {
        "kind": sample["kind"],
        "at_ms": sample["sampled_at_ms"],
        "from_ms": sample["interval_start_ms"],
        "traffic": {key: value for key, value in sample["traffic"].items() if value},
        "preemptions": sample["decode_interval_metrics"]["preemptions"],
        "gauges": [[rank[name] for name in names] for rank in sample["decode_scheduler_metrics"]],
    }


@pytest.mark.parametrize("name", RECORDED)
def test_samples_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    case = RECORDED[name]
    _, samples, _ = observe(recorded_payload(case, tmp_path), case["interval_ms"])
    assert len(samples) == len(case["samples"])
    for got, want in zip(map(compact, samples), case["samples"], strict=True):
        for key in ("traffic", "at_ms", "from_ms"):
            assert got.pop(key) == pytest.approx(want[key])
        assert got == {key: want[key] for key in got}


@pytest.mark.parametrize("name", RECORDED)
def test_forward_passes_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    case = RECORDED[name]
    _, _, ticks = observe(recorded_payload(case, tmp_path), case["interval_ms"])
    assert len(ticks) > 2
    # A scaling policy is also asked between the last event and a cap; we only look.
    for (at_ms, got), (tick_ms, want) in zip(ticks, case["passes"], strict=False):
        assert at_ms == pytest.approx(tick_ms)
        assert len(got) == len(want)
        for item, expected in zip(got, want, strict=True):
            assert {key: value for key, value in item.items() if value} == pytest.approx(expected)


def test_a_capped_replay_ends_with_the_rest_of_an_interval(tmp_path: Path) -> None:
    _, samples, _ = observe(payload_of("c57-max-sim-boundary", tmp_path), 4.0)
    assert [(s["kind"], s["interval_start_ms"], s["sampled_at_ms"]) for s in samples] == [
        ("baseline", 0.0, 0.0),
        ("periodic", 0.0, 4.0),
        ("periodic", 4.0, 8.0),
        ("periodic", 8.0, 12.0),
        ("final", 12.0, 15.0),
    ]
    assert samples[3]["decode_scheduler_metrics"] == [
        {
            "worker_id": 0,
            "dp_rank": 0,
            "active_blocks": 2,
            "inactive_blocks": 0,
            "total_blocks": 64,
            "active_cache_usage": 0.03125,
            "physical_cache_usage": 0.03125,
            "running_requests": 1,
            "waiting_requests": 0,
        }
    ]


# By itself --------------------------------------------------------------------------------------------


def pass_by_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers end after every pass, so that nothing has to be computed inside a run."""

    def cut_short(start: Callable) -> Callable:
        def start_one(worker: Any, now_ns: int) -> bool:
            started = start(worker, now_ns)
            if started:
                worker.cut(now_ns + 1)
            return started

        return start_one

    monkeypatch.setattr(WatchedWorker, "start", cut_short(WatchedWorker.start))


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(
    st.one_of(scenarios(), turnstile_scenarios(), sglang_scenarios(), crowded_draft_scenarios()),
    st.sampled_from([0.7, 2.5, 4.0, 20.0]),
)
def test_runs_are_sampled_like_single_passes(scenario: Scenario, interval_ms: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asked = scenario.materialise(Path(folder))
        in_runs = observe(asked, interval_ms)
        with pytest.MonkeyPatch.context() as monkeypatch:
            pass_by_pass(monkeypatch)
            in_passes = observe(asked, interval_ms)
        assert simulated_part(in_runs[0]) == simulated_part(execute(asked))
        assert in_runs[1:] == in_passes[1:]


def test_counters_add_up_to_the_report(tmp_path: Path) -> None:
    report, samples, _ = observe(payload_of("c54-preemption", tmp_path), 7.0)
    traffic = [sample["traffic"] for sample in samples]
    assert sum(item["arriving_requests"] for item in traffic) == report["num_requests"]
    assert sum(item["completed_requests"] for item in traffic) == report["completed_requests"]
    tokens = sum(item["avg_osl"] * item["completed_requests"] for item in traffic)
    assert tokens == pytest.approx(report["total_output_tokens"])
    readmissions = sum(record["readmission_count"] for record in report["per_request"])
    assert readmissions == 1
    assert sum(sample["decode_interval_metrics"]["preemptions"] for sample in samples) == readmissions
    lookups = [
        entry["reused_input_tokens"] for row in report["per_request"] for entry in row["admission_history"]
    ]
    hits = sum(sample["decode_interval_metrics"]["cache_hit_tokens"] for sample in samples)
    assert hits == sum(lookups) > 0


@pytest.mark.parametrize("backend", ["vllm", "sglang"])
def test_accepted_drafts_make_a_forward_longer(backend: str) -> None:
    drafts = {"backend": backend, "aic_nextn": 2, "aic_nextn_accept_rates": "1,1"}
    report, samples, _ = observe(payload([(0.0, 8, 7)], **drafts), 1000.0)
    traffic = samples[-1]["traffic"]
    assert report["total_output_tokens"] == 7
    # The first burst of vLLM ends the prefill; of the last one a single token is still to be generated.
    assert (traffic["accept_length_forward_count"], traffic["avg_accept_length"]) == (2, 3.0)


def test_samples_can_be_written_as_they_come() -> None:
    asked, samples, stream = payload([(0.0, 8, 3)]), [], io.StringIO()
    execute(asked, observers=[Telemetry(6.0, samples.append), Telemetry(6.0, JsonLines(stream))])
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == samples
    assert len(samples) == 5


def test_nothing_is_sampled_beyond_the_end() -> None:
    _, samples, _ = observe(payload([(0.0, 8, 3)]), 1000.0)
    assert [(sample["kind"], sample["sampled_at_ms"]) for sample in samples] == [
        ("baseline", 0.0),
        ("final", 20.0),
    ]


def test_an_idle_rank_reports_itself_each_second() -> None:
    _, _, ticks = observe(payload([(0.0, 8, 3), (2500.0, 8, 1)]), 250.0)
    silent = [at_ms for at_ms, items in ticks if items and not items[0]["wall_time"]]
    assert silent == [1250.0, 2250.0]  # a second and two after the pass that ended at 20 ms


@pytest.mark.parametrize("interval_ms", [0.0, -1.0, float("nan"), float("inf"), 1e-4])
def test_an_impossible_interval_is_refused(interval_ms: float) -> None:
    with pytest.raises(InputError, match="telemetry interval"):
        Telemetry(interval_ms, print)


def test_messages_name_the_interval_as_told() -> None:
    with pytest.raises(InputError, match=r"^--every: 0 ms is not"):
        Telemetry(0.0, print, name="--every")


@pytest.mark.parametrize("requests", [[(1.7e12, 8, 3)], [(0.0, 8, 3), (1.7e12, 8, 3)]])
def test_too_many_samples_are_refused_before_they_are_taken(requests: list) -> None:
    samples: list[dict[str, Any]] = []
    with pytest.raises(InputError) as caught:
        execute(payload(requests), observers=[Telemetry(1000.0, samples.append, name="--every")])
    assert str(caught.value) == (
        "--every: 1000 ms makes 1,700,000,000 samples up to 1.7e+12 ms, more than 1,000,000; try 200000000"
    )
    assert len(samples) <= 1
    execute(payload(requests), observers=[Telemetry(200000000.0, samples.append)])
    assert 8000 < len(samples) < 9000


def test_as_many_samples_as_allowed_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{Telemetry.__module__}.MOST_SAMPLES", 6)
    monkeypatch.setattr(f"{Telemetry.__module__}._ADVISED_SAMPLES", 2)
    _, samples, _ = observe(payload([(5.0, 8, 3)]), 5.0)  # ends at 25 ms
    assert [sample["kind"] for sample in samples] == ["baseline", *["periodic"] * 5]
    with pytest.raises(InputError, match=r": 4 ms makes 7 samples up to 25 ms, more than 6; try 20$"):
        observe(payload([(5.0, 8, 3)]), 4.0)


def test_an_interval_beyond_all_time_is_fine() -> None:
    _, samples, _ = observe(payload([(0.0, 8, 3)]), 1e308)
    assert [sample["kind"] for sample in samples] == ["baseline", "final"]


@pytest.mark.parametrize(
    ("name", "blinded"),
    [
        ("build.watch_workers", lambda workers, hub: workers),
        ("build.build_workers", lambda *_: [object()]),
    ],
)
def test_what_cannot_be_watched_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, blinded: Any) -> None:
    monkeypatch.setattr(f"aisimulate.replay.{name}", blinded)
    with pytest.raises(UnsupportedError, match="cannot be watched yet"):
        execute(payload([(0.0, 8, 3)]), observers=[Ticks(1.0)])


def test_pools_have_columns_of_their_own() -> None:
    pools = {"kind": "disaggregated", "prefill": {"initial_workers": 2}, "decode": {"initial_workers": 1}}
    asked = payload([(0.0, 8, 3), (1.0, 8, 3)]) | {"topology": pools}
    samples: list[dict[str, Any]] = []
    report = execute(asked, observers=[Telemetry(6.0, samples.append)])
    assert simulated_part(report) == simulated_part(execute(asked))
    last = samples[-1]
    assert (last["active_prefill_ids"], last["active_decode_ids"]) == ([0, 1], [0])
    for pool, workers in (("prefill", [0, 1]), ("decode", [0])):
        assert [entry["worker_id"] for entry in last[f"{pool}_scheduler_metrics"]] == workers
    looked_up = sum(sample["prefill_interval_metrics"]["cache_total_tokens"] for sample in samples)
    assert looked_up == 16
    assert sum(sample["traffic"]["completed_requests"] for sample in samples) == 2
    assert sum(sample["traffic"]["arriving_requests"] for sample in samples) == 2


@pytest.mark.parametrize("scope", ["worker_local", "cluster_shared"])
def test_a_transfer_that_ends_between_passes_ends_no_pass(scope):
    """A worker with a disk behind it also wakes when only a copy is due; counters must not see a pass end."""
    timing = {"type": "fixed", "prefill_ms": 1.0, "decode_ms": 1.0}
    rank = {
        "timing_model": timing,
        "num_gpu_blocks": 24,
        "block_size": 16,
        "kv_cache_bytes_per_token": 1_000_000,
        "native_host_offload": {"num_host_blocks": 40, "d2h_bandwidth_gbps": 8.0},
        "g3_offload": {"scope": scope, "num_g3_blocks": 400, "write_bandwidth_gbps": 1.0},
    }
    prompts = [[1000 * (n % 4) + k for k in range(256)] for n in range(12)]
    requests = [
        {
            "id": f"r{n}",
            "arrival_time_ms": 400.0 * n,
            "input_tokens": 256,
            "output_tokens": 4,
            "input_token_ids": ids,
        }
        for n, ids in enumerate(prompts)
    ]
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 2}},
        "engine": {"rank": rank},
        "requests": requests,
    }
    samples: list[dict[str, Any]] = []
    watched = execute(spec, observers=[Telemetry(100.0, samples.append)])
    assert simulated_part(watched) == simulated_part(execute(spec))
    assert sum(sample["traffic"]["completed_requests"] for sample in samples) == 12
    assert sum(sample["decode_interval_metrics"]["cache_total_tokens"] for sample in samples) == 12 * 256
