"""Whole replays with a KV-aware router."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aisimulate.core.errors import InputError
from aisimulate.engine import told_worker
from aisimulate.engine.cache_view import RadixCacheView, RunCacheView
from aisimulate.engine.group import GroupWorker
from aisimulate.engine.sglang_worker import SglangGroup, SglangWorker
from aisimulate.engine.worker import RankWorker
from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker
from aisimulate.replay.observe.telemetry import Telemetry

from .routed import payload

FIXED = {"timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0}}
TINY = {"num_gpu_blocks": 40, "max_num_seqs": 4, "max_num_batched_tokens": 32}


def row(at_ms: float, ids: list[int], tokens: int, output: int) -> dict[str, Any]:
    return {"timestamp": at_ms, "input_length": tokens, "output_length": output, "hash_ids": ids}


def routes(report: dict[str, Any]) -> list[dict[str, Any]]:
    by_dispatch = sorted(report["per_request"], key=lambda record: int(record["uuid"]))
    return [record["routing_history"][0] for record in by_dispatch]


REPEATS = [row(at_ms, [1, 2, 3, 10 + at_ms], 16, 2) for at_ms in (0, 100, 200, 300)]


def test_a_prefix_draws_its_requests_to_one_worker(tmp_path: Path) -> None:
    """c51: the first goes anywhere, the others where 3 of their 4 blocks are."""
    report = execute(payload(REPEATS, tmp_path, block=4, rank=FIXED))
    assert [route["logical_worker_id"] for route in routes(report)] == [0, 0, 0, 0]
    assert [route["selected_overlap_blocks"] for route in routes(report)] == [0, 3, 3, 3]
    assert report["prefix_cache_reused_ratio"] == 36 / 64


def test_a_lag_hides_blocks_from_the_router_but_not_from_the_engine(tmp_path: Path) -> None:
    """c52, with 150 ms: what was computed by 10 ms is known from 160 ms on."""
    report = execute(payload(REPEATS, tmp_path, block=4, rank=FIXED, workers=1, kv_event_lag_ms=150.0))
    assert [route["reported_overlap_tokens"] for route in routes(report)] == [0, 0, 12, 12]
    assert report["prefix_cache_reused_ratio"] == 36 / 64


def test_without_events_the_router_knows_what_it_sent(tmp_path: Path) -> None:
    """At once, and for as long as it remembers: the second comes before the first is computed."""
    rows = [row(at_ms, [1, 2, 3, 4], 16, 2) for at_ms in (0, 5, 1900, 4100)]
    config = {"use_kv_events": False, "router_ttl_secs": 2.0, "overlap_score_credit": 2.0}
    report = execute(payload(rows, tmp_path, block=4, rank=FIXED, **config))
    assert [route["selected_overlap_blocks"] for route in routes(report)] == [0, 4, 4, 0]


@pytest.mark.parametrize(
    ("config", "worker"),
    [
        ({}, 0),
        ({"router_track_output_blocks": True}, 1),
        ({"router_track_output_blocks": True, "router_output_block_decay": True}, 0),
    ],
)
@pytest.mark.parametrize(
    "rank",
    [
        {},
        {"aic_nextn": 1, "aic_nextn_accept_rates": "0"},
        {
            "num_gpu_blocks": 1000,
            "block_size": 4,
            "kv_cache_bytes_per_token": 1,
            "state_cache": {"bytes_per_request": 9},
        },
    ],
)
def test_output_may_count(rank: dict[str, Any], config: dict[str, Any], worker: int, tmp_path: Path) -> None:
    """Worker 0 has 1 block of prompt and about 75 of output, of 100; worker 1 has 5 and 25 of 100."""
    rows = [row(0, [1], 4, 400), row(1000, [2, 3, 4, 5, 6], 20, 400), row(1500, [7], 4, 1)]
    report = execute(payload(rows, tmp_path, block=4, rank=FIXED | rank, **config))
    assert [route["logical_worker_id"] for route in routes(report)] == [0, 1, worker]


def test_output_may_count_on_decode_workers(tmp_path: Path) -> None:
    rows = [row(0, [1], 4, 400), row(1000, [2, 3, 4, 5, 6], 20, 400), row(1500, [7], 4, 1)]
    chosen = []
    for tracks in (False, True):
        asked = payload(rows, tmp_path, pools=(1, 2), block=4, rank=FIXED, router_track_output_blocks=tracks)
        by_dispatch = sorted(execute(asked)["per_request"], key=lambda record: int(record["uuid"]))
        chosen.append([record["decode_worker_idx"] for record in by_dispatch])
    assert chosen == [[0, 1, 0], [0, 1, 1]]


def test_a_named_rank_is_kept(tmp_path: Path) -> None:
    requests = [
        {"id": f"r{n}", "arrival_time_ms": 0, "input_tokens": 8, "output_tokens": 2, "dp_rank": 1}
        for n in range(4)
    ]
    asked = payload([], tmp_path, block=4, rank=FIXED, launch={"dp_size": 2})
    asked["spec"]["requests"] = requests
    report = execute({"spec": asked["spec"]})
    assert [route["dp_rank"] for route in routes(report)] == [1] * 4
    assert [route["logical_worker_id"] for route in routes(report)] == [0, 1, 0, 1]


@pytest.mark.parametrize(("model", "worker"), [("none", 1), ("ais", 0)])
def test_predicted_prefills_decay(model: str, worker: int, tmp_path: Path) -> None:
    """Prefills of 1 s: when the third prompt comes, the longer one is nearly done, the other just begun."""
    rank = {"timing_model": {"type": "fixed", "prefill_ms": 1000.0, "decode_ms": 5.0}}
    rows = [row(0, [1, 2, 3, 4], 16, 1), row(900, [5, 6, 7], 12, 1), row(950, [8], 4, 1)]
    config = {"router_prefill_load_model": model, "router_track_active_blocks": False}
    report = execute(payload(rows, tmp_path, block=4, rank=rank, **config))
    assert [route["logical_worker_id"] for route in routes(report)] == [0, 1, worker]


# In runs and pass by pass ---------------------------------------------------------------------------


IDS = st.lists(st.integers(0, 3), min_size=1, max_size=6)
ROWS = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 7, 20, 90]), IDS, st.integers(0, 3), st.sampled_from([1, 2, 9, 40])),
    min_size=2,
    max_size=14,
)
CONFIGS = st.sampled_from(
    [
        {},
        {"router_temperature": 0.5, "seed": 5},
        {"tie_break": "random"},
        {"router_queue_threshold": 0.4, "router_queue_policy": "wspt"},
        {"router_track_output_blocks": True},
        {"kv_event_lag_ms": 30.0},
        {"router_prefill_load_model": "ais"},
    ]
)


def rows_of(drawn: list[tuple[int, list[int], int, int]]) -> list[dict[str, Any]]:
    now_ms, rows = 0, []
    for wait_ms, ids, missing, output in drawn:
        now_ms += wait_ms
        rows.append(row(now_ms, ids, 4 * len(ids) - missing, output))
    return rows


def simulated(asked: dict[str, Any]) -> dict[str, Any]:
    """A report without what depends on the machine."""
    report = execute(asked)
    return {key: value for key, value in report.items() if "wall" not in key and "processed" not in key}


def pass_by_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers end after every pass, and let a router know of caches what they held then."""
    kinds = (RankWorker, GroupWorker, SglangWorker, SglangGroup)
    for kind in [told_worker.twin_of(kind) for kind in kinds]:
        monkeypatch.setattr(kind, "start", _cut_short(kind.start))
    monkeypatch.setattr(RunCacheView, "_grow", _never)
    monkeypatch.setattr(RadixCacheView, "_grow", _never)


def _cut_short(start: Callable[[Any, int], bool]) -> Callable[[Any, int], bool]:
    def start_one(worker: Any, now_ns: int) -> bool:
        started = start(worker, now_ns)
        if started:
            worker.cut(now_ns + 1)
        return started

    return start_one


def _never(view: Any, passes: int) -> None:
    """A run of one pass does nothing before its end."""


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    ROWS,
    CONFIGS,
    st.sampled_from(["vllm", "trtllm", "sglang"]),
    st.sampled_from([(1, 2), (3, 1), (2, 2)]),
    st.sampled_from([12, 20, 40]),
)
def test_runs_are_routed_like_single_passes(drawn, config, backend, shape, blocks) -> None:
    workers, dp_size = shape
    with tempfile.TemporaryDirectory() as folder:
        rank = TINY | FIXED | {"backend": backend, "num_gpu_blocks": blocks}
        asked = payload(
            rows_of(drawn),
            Path(folder),
            workers=workers,
            block=4,
            rank=rank,
            launch={"dp_size": dp_size},
            **config,
        )
        in_runs = simulated(asked)
        assert json.dumps(in_runs) == json.dumps(simulated(asked))
        with pytest.MonkeyPatch.context() as monkeypatch:
            pass_by_pass(monkeypatch)
            in_passes = simulated(asked)
    for report in (in_runs, in_passes):
        for key in [key for key in report if key.startswith(("plan", "pass"))]:
            del report[key]
    assert in_runs == in_passes


def test_watching_a_routed_replay_changes_nothing(tmp_path: Path) -> None:
    asked = payload(REPEATS, tmp_path, block=4, rank=FIXED)
    samples: list[dict[str, Any]] = []
    watched = execute(asked, observers=[Telemetry(50.0, samples.append)])
    assert watched["per_request"] == execute(asked)["per_request"]
    assert len(samples) > 4


@pytest.mark.parametrize("pools", [{}, {"pools": (1, 1)}])
def test_watching_a_queue_changes_nothing(pools: dict[str, Any], tmp_path: Path) -> None:
    burst = [row(0, [1, 2, 3, number], 16, 2) for number in range(8)]
    queued = payload(burst, tmp_path, block=4, rank=FIXED, router_queue_threshold=0.0, **pools)
    samples: list[dict[str, Any]] = []
    watched = execute(queued, observers=[Telemetry(5.0, samples.append), InvariantChecker(thorough=True)])
    assert watched["per_request"] == execute(queued)["per_request"]
    side = "prefill" if pools else "decode"
    assert any(sample[f"router_pending_{side}_requests"] for sample in samples)
    placed = sum(sample["traffic"]["router_kv_hit_rate_count"] for sample in samples)
    assert placed == len(watched["per_request"])


@pytest.mark.parametrize("backend", ["vllm", "trtllm", "sglang"])
def test_who_waits_is_let_in_beside_drafts(backend: str, tmp_path: Path) -> None:
    burst = [row(0, [number], 4, 3) for number in range(6)]
    rank = TINY | FIXED | {"backend": backend, "aic_nextn": 2}
    queued = payload(burst, tmp_path, block=4, rank=rank, router_queue_threshold=0.0)
    report = execute(queued)
    assert report["completed_requests"] == 6
    assert any(route["queue_wait_ms"] for route in routes(report))


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"router_temperature": -1.0}, "router_temperature: -1.0 is not >= 0"),
        ({"overlap_score_credit": float("nan")}, "overlap_score_credit"),
        ({"host_cache_hit_weight": 1.5}, "host_cache_hit_weight: 1.5 is not <= 1"),
        ({"router_queue_policy": "lifo", "router_queue_threshold": 1.0}, "'lcfs'"),
        ({"router_queue_policy": "lcfs"}, "no effect unless router_queue_threshold is a number"),
        ({"router_ttl_secs": 1e300, "use_kv_events": False}, "router_ttl_secs: 1e+300 is not <= 9000000000"),
        ({"router_ttl_secs": 3.0}, "has no effect unless use_kv_events is false"),
        ({"kv_event_lag_ms": 3.0, "use_kv_events": False}, "has no effect unless use_kv_events is true"),
        (
            {"router_prefill_load_model": "ais", "router_track_prefill_tokens": False},
            "router_prefill_load_model: has no effect unless router_track_prefill_tokens is true",
        ),
        ({"tie_break": "random", "router_temperature": 0.5}, "no effect with a router_temperature above 0"),
        (
            {"overlap_score_weight": 2.0, "prefill_load_scale": 2.0},
            "may not be combined with prefill_load_scale",
        ),
        ({"temperature": 0.5, "router_temperature": 0.5}, "duplicate field"),
        ({"overlap_score_creditt": 1.0}, "did you mean 'overlap_score_credit'?"),
    ],
)
def test_a_wrong_setting_is_told_in_one_line(config: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(text)) as caught:
        execute(payload(REPEATS, tmp_path, block=4, rank=FIXED, **config))
    assert str(caught.value).startswith("spec.adapters.placement.config.")
    assert "\n" not in str(caught.value)


def test_an_old_weight_sets_the_scale(tmp_path: Path) -> None:
    """2 is a scale of 2, and 0 takes the credit away too."""
    rows = [row(5 * number, [1, 2, number % 3, 9 + number], 16, 9) for number in range(12)]
    for weight, config in ((2.0, {"prefill_load_scale": 2.0}), (0.0, {"prefill_load_scale": 0.0})):
        old = payload(rows, tmp_path, block=4, rank=FIXED, overlap_score_weight=weight)
        assert simulated(old) == simulated(payload(rows, tmp_path, block=4, rank=FIXED, **config))


def test_a_pair_of_pools_is_routed_the_same_twice(tmp_path: Path) -> None:
    rows = [row(3 * number, [1, 2, number % 3, 9 + number], 16, 9) for number in range(20)]
    for backend in ("vllm", "trtllm", "sglang"):
        asked = payload(
            rows, tmp_path, pools=(2, 2), block=4, rank=FIXED | {"backend": backend}, router_temperature=0.5
        )
        assert json.dumps(simulated(asked)) == json.dumps(simulated(asked))
