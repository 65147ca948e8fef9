"""Searches that replay in part, and in full what they report."""

from __future__ import annotations

import itertools

import pytest
from search_fakes import Notes
from spica_walk import PINNED, changed

from aisimulate.cli import export as export_command
from aisimulate.replay.parts import EARLY_STOP_KEY, FIRST_SESSIONS_KEY
from aisimulate.report.figures import figures
from aisimulate.report.fronts import front_area
from aisimulate.report.page.candidates import candidate_rows
from aisimulate.report.page.facts import numbered_rivals
from aisimulate.spica.config import Candidate, SmartSearchConfig
from aisimulate.spica.evaluate import EvaluationContext
from aisimulate.spica.evaluator import ReplayEvaluator
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.recorded_run import read_run
from aisimulate.spica.reported import was_short
from aisimulate.spica.search import run_search
from aisimulate.spica.short_replays import finalists, may_be_short
from aisimulate.spica.time_budget import TimeBudget

LOOP = {"isl": 200, "osl": 20, "concurrency": 30, "num_request_ratio": 10}
SEVERAL = changed(
    PINNED,
    {
        "search_space.parallel_configs": None,
        "search_space.agg_max_num_seqs": [256, 512],
        "workload": LOOP,
        "goal": {"target": "throughput_per_gpu"},
        "sweep.candidates_per_round": 6,
    },
)


def search(config, **options):
    return run_search(SmartSearchConfig.model_validate(config), **options)


def test_what_is_reported_was_replayed_in_full():
    auto, off = search(SEVERAL), search(changed(SEVERAL, {"sweep.early_stop": "off"}))
    # Two settings of each deployment measure the same: one of them is enough.
    assert [c.metrics for c in auto.candidates] == [c.metrics for c in off.candidates][::2]
    shorts = [o.candidate for o in auto.outcomes if was_short(o.candidate)]
    assert len(shorts) == 6 and len(auto.outcomes) == 9
    assert auto.progress.total == 9, "else its counts say 9 of 6"
    assert all(candidate.metrics[EARLY_STOP_KEY] < 300 for candidate in shorts)
    assert not [o for o in off.outcomes if was_short(o.candidate)]


def test_the_short_figures_are_close():
    auto = search(SEVERAL)
    full = {(c.config["tp"], c.config["replicas"]): c.score for c in auto.candidates}
    for outcome in auto.outcomes:
        workers = outcome.config["tp"], outcome.config["replicas"]
        assert outcome.candidate.score == pytest.approx(full[workers], rel=0.03)


def test_a_front_is_replayed_in_full():
    config = changed(SEVERAL, {"goal": {"target": "pareto"}, "workload.concurrency": None})
    config["workload"]["kv_load_ratio"] = [0.001, 0.02]
    result = search(config)
    assert result.candidates and not any(map(was_short, result.candidates))


def test_only_the_best_are_replayed_in_full(monkeypatch):
    monkeypatch.setattr("aisimulate.spica.short_replays._FEWEST_FINALISTS", 2)
    result = search(SEVERAL)
    assert len(result.candidates) == 2
    best = max(o.candidate.score for o in result.outcomes if was_short(o.candidate))
    assert result.candidates[0].score == pytest.approx(best, rel=0.03)


@pytest.mark.parametrize("done", [0, 1, 3])
def test_a_search_whose_time_ends_among_the_finalists_says_so(monkeypatch, done):
    """The budget is asked once per replay; the sampler is asked once besides."""
    clock = itertools.count()
    monkeypatch.setattr(
        "aisimulate.spica.search.TimeBudget",
        lambda _: TimeBudget(7.5 + done, lambda: float(next(clock))),
    )
    told = Notes()
    result = search(changed(SEVERAL, {"sweep.max_seconds": 9.0, "sweep.max_rounds": 1}), observer=told)
    assert [was_short(o.candidate) for o in result.outcomes] == [True] * 6 + [False] * done
    assert result.status == ("done" if done == 3 else "out_of_time")
    ended = [line for line in told.notes if "finalists: stopped after" in line]
    assert [line.rpartition(", ")[2] for line in ended] == (
        [] if done == 3 else [f"{done} of 3 replayed in full"]
    )
    counted = [line for line in told.notes if "then replayed in full" in line]
    assert [line.split(" candidates")[0] for line in counted] == ([f"{done} of 6"] if done else [])


def test_finalists_tell_how_far_they_are(monkeypatch):
    monkeypatch.setattr("aisimulate.spica.short_replays._FEWEST_FINALISTS", 3)
    told = Notes()
    search(changed(SEVERAL, {"sweep.candidates_per_round": 1, "sweep.max_rounds": 6}), observer=told)
    assert [name for name in told.phases if name.startswith("finalists")] == [
        "finalists",
        "finalists: 1 of 3 replayed in full",
        "finalists: 2 of 3 replayed in full",
    ]


def test_a_long_trace_is_cut(monkeypatch, tmp_path):
    monkeypatch.setattr("aisimulate.spica.short_replays.SHORT_SESSIONS", 20)
    monkeypatch.setattr("aisimulate.spica.evaluator.SHORT_SESSIONS", 20)
    rows = (
        f'{{"timestamp": {50 * i}, "input_length": 300, "output_length": 9, "hash_ids": [{i}]}}'
        for i in range(40)
    )
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(rows))
    goal = {"target": "goodput", "sla": {"ttft_ms": 500, "itl_ms": 50}}
    result = search(changed(SEVERAL, {"workload": {"trace_path": str(path)}, "goal": goal}))
    shorts = [o.candidate for o in result.outcomes if was_short(o.candidate)]
    assert shorts and all(candidate.metrics[FIRST_SESSIONS_KEY] == 20 for candidate in shorts)
    assert all(candidate.metrics["num_requests"] == 40 for candidate in result.candidates)


def test_a_resumed_search_knows_both_parts(tmp_path):
    path = tmp_path / "run.sqlite"
    with Ledger.create(path) as ledger:
        first = search(SEVERAL, ledger=ledger)
    with Ledger.open_ledger(path, writable=True) as ledger:
        assert len(ledger.replayed()) == 9
        again = search(SEVERAL, ledger=ledger)
        attempts = list(ledger.attempts())
    assert [c.score for c in again.candidates] == [c.score for c in first.candidates]
    assert [attempt.branch for attempt in attempts] == ["agg"] * 6 + ["finalists"] * 3
    assert sum(was_short(attempt.outcome.candidate) for attempt in attempts) == 6


def test_what_was_replayed_in_part_has_no_payload(tmp_path, capsys):
    path = tmp_path / "run.sqlite"
    with Ledger.create(path) as ledger:
        search(SEVERAL, ledger=ledger)
    assert export_command.main([str(path), "1", "--to", "replay"]) == 2
    assert "candidate 1 was replayed in part, which no payload says" in capsys.readouterr().err


@pytest.mark.parametrize("goal", ["throughput_per_gpu", "pareto"])
def test_a_record_ranks_what_its_search_reported(tmp_path, monkeypatch, goal):
    """Else `runs show`, `report` and `export` name another winner, or other figures of the same one."""
    monkeypatch.setattr("aisimulate.spica.short_replays._FEWEST_FINALISTS", 2)
    with Ledger.create(tmp_path / "run.sqlite") as ledger:
        result = search(changed(SEVERAL, {"goal": {"target": goal}}), ledger=ledger)
        run = read_run(ledger)
    assert [c.metrics for c in run.candidates] == [c.metrics for c in result.candidates]
    rows = candidate_rows(run)
    configs = [row.candidate.config for row in rows]
    assert all(config not in configs[:place] for place, config in enumerate(configs))
    parts = [row.label.endswith(" (replayed in part)") for row in rows]
    assert parts == [was_short(row.candidate) for row in rows] == sorted(parts)
    assert any(parts)
    whole = {row.number for row in rows if not was_short(row.candidate)}
    assert {rival.number for rival in numbered_rivals(rows, figures(run.config.goal))} <= whole


@pytest.mark.parametrize(
    ("changes", "short"),
    [
        ({}, True),
        ({"sweep.early_stop": "off"}, False),
        ({"goal": {"target": "goodput", "sla": {"e2e_ms": 9}}}, False),
        ({"goal": {"target": "e2e_latency"}}, True),
        ({"goal": {"target": "throughput", "sla": {"e2e_ms": 9}, "strict_sla": True}}, False),
        ({"workload.turns_per_session": 2}, False),
        ({"workload.shared_prefix_ratio": 0.5, "workload.num_prefix_groups": 1}, False),
        ({"workload.concurrency": None, "workload.request_rate": 3.0}, False),
    ],
)
def test_who_may_be_short(changes, short):
    config = SmartSearchConfig.model_validate(changed(SEVERAL, changes))
    context = EvaluationContext(config, ReplayEvaluator(config.workload, config.goal), {})
    assert may_be_short({"backend": "vllm"}, context) is short
    assert may_be_short({"backend": "sglang", "attention_dp": 1}, context) is short
    assert not may_be_short({"backend": "sglang", "decode_attention_dp": 4}, context)
    assert not may_be_short({"backend": "vllm", "enable_load_scaling": True}, context)
    checking = EvaluationContext(config, ReplayEvaluator(config.workload, config.goal, check=True), {})
    assert not may_be_short({"backend": "vllm"}, checking)


@pytest.mark.parametrize("choice", ["auto", "rough", "off"])
def test_rough_searches_also_stop_ranks_that_run_in_step(choice):
    config = SmartSearchConfig.model_validate(changed(SEVERAL, {"sweep.early_stop": choice}))
    context = EvaluationContext(config, ReplayEvaluator(config.workload, config.goal), {})
    for name in ("attention_dp", "prefill_attention_dp", "decode_attention_dp"):
        assert may_be_short({"backend": "sglang", name: 4}, context) is (choice == "rough")
    assert may_be_short({"backend": "sglang"}, context) is (choice != "off")
    assert not may_be_short({"backend": "sglang", "enable_load_scaling": True}, context)


@pytest.mark.parametrize(("points", "kept"), [(30, 30), (48, 48), (200, 48), (800, 80)])
def test_of_a_long_front_points_far_apart_are_replayed_in_full(points, kept):
    config = SmartSearchConfig.model_validate(changed(SEVERAL, {"goal": {"target": "pareto"}}))
    made = [
        Candidate(
            config={},
            used_gpus=1,
            score=0.0,
            metrics={EARLY_STOP_KEY: 1.0, "place": float(place)},
            objectives={"throughput_per_gpu": 1.0 + place, "throughput_per_user": 1000.0 / (1 + place)},
        )
        for place in range(points)
    ]
    chosen = finalists(made, config)
    assert len(chosen) == kept
    assert chosen[0] is made[0] and chosen[-1] is made[-1], "the ends"
    areas = [front_area(config.goal.targets, front) for front in (chosen, made)]
    assert areas[0] > 0.9 * areas[1]


def test_nothing_short_needs_no_finalists():
    assert finalists([], SmartSearchConfig.model_validate(SEVERAL)) == []
