"""Choosing a load forecaster by what replays with it cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from spica_walk import FORECAST, Look, changed, look

from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.evaluate import EvaluationContext
from aisimulate.spica.executor import InProcessPool
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.outcome import Outcome
from aisimulate.spica.plan import plan_search
from aisimulate.spica.predictor_replay import PredictorReplays
from aisimulate.spica.search import run_search

# By their errors the first one is the best of these.
CANDIDATES = ["smoothing_slow_log1p", "kalman_default_raw", "constant_last"]
CHOSEN = {
    "search_space.load_predictor_candidates": CANDIDATES,
    "search_space.gpu_budget": 8,
    "search_space.startup_time": 5,
}
BY_REPLAY = changed(FORECAST, CHOSEN | {"sweep.load_predictor_choice": "replay"})


def forecasters(seen: Look) -> list[str]:
    return [one["spec"]["adapters"]["scaling"]["config"]["load_predictor"] for one in seen.payloads]


def test_every_candidate_is_replayed_once_and_the_cheapest_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    by_error = look(changed(FORECAST, CHOSEN), monkeypatch)
    assert set(forecasters(by_error)) == {"smoothing"}
    seen = look(BY_REPLAY, monkeypatch)
    tried, searched = forecasters(seen)[:3], forecasters(seen)[3:]
    assert tried == ["smoothing", "kalman", "constant"]
    assert set(searched) == {"kalman"}


def test_the_choice_is_kept_in_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def counted(self: InProcessPool, task: Any) -> Outcome:
        measured.append(task.key)
        return original(self, task)

    original = InProcessPool._measure
    monkeypatch.setattr(InProcessPool, "_measure", counted)
    config = SmartSearchConfig.model_validate(BY_REPLAY)
    with Ledger.create(tmp_path / "run.sqlite") as ledger:
        first = run_search(config, ledger=ledger)
    count = len(measured)
    assert count == len(set(measured)), "no replay is done twice"
    with Ledger.open_ledger(tmp_path / "run.sqlite", writable=True) as ledger:
        again = run_search(config, ledger=ledger)
    assert len(measured) == count
    assert again.candidates == first.candidates


class Measured:
    """An evaluator with a report of fixed numbers."""

    def __init__(self, report: dict[str, float]) -> None:
        self.report = report
        self.plans: list[Any] = []

    def evaluate(self, plan: Any, *, concurrency_override: int | None = None) -> dict[str, float]:
        del concurrency_override
        self.plans.append(plan)
        return self.report


def costs_of(report: dict[str, float], **changes: Any) -> tuple[Any, list[Any]]:
    config = changed(FORECAST, {"search_space.parallel_configs": None} | changes)
    plan = plan_search(SmartSearchConfig.model_validate(config))
    evaluator = Measured(report)
    context = EvaluationContext(plan.config, evaluator, dict.fromkeys(plan.backends, "1"))
    replays = PredictorReplays(plan.branches, context, InProcessPool(context))
    return replays(20, {"constant_last": "constant_last"})["constant_last"], evaluator.plans


REPORT = {
    "gpu_hours": 2.5,
    "num_requests": 10,
    "goodput_completed_requests": 7,
    "goodput_output_throughput_tok_s": 1.0,
}


def test_the_smallest_deployment_of_every_mode_is_replayed() -> None:
    pinned = {"search_space.deployment_mode": ["agg", "disagg"]}
    cost, plans = costs_of(REPORT, **pinned)
    assert [plan.deployment_mode for plan in plans] == ["agg", "disagg"]
    assert [plan.agg_engine_args or plan.prefill_engine_args for plan in plans]
    assert (cost.gpu_hours, cost.sla_violations) == (5.0, 6.0)


def test_a_report_without_what_it_costs_is_told() -> None:
    cost, _ = costs_of({name: value for name, value in REPORT.items() if name != "num_requests"})
    assert cost == "the report has no num_requests"


def test_a_deployment_that_cannot_be_measured_is_told() -> None:
    cost, _ = costs_of({"gpu_hours": 1.0})
    assert "goodput" in cost
