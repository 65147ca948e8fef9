"""Candidates replayed again: the same results, their state over time, and the origin of their pass times."""

from __future__ import annotations

import json
import re

import pytest

import aisimulate
from aisimulate.cli.report import main
from aisimulate.perf.origins import ForwardOrigins
from aisimulate.report.again import replayable_config
from aisimulate.report.inside import is_short, look_inside, origins_text
from aisimulate.report.page.render import page_html
from aisimulate.spica.config import Candidate
from tests.api.test_api import SEARCH
from tests.page.made_run import made_run

ENGINE = {"model": "meta-llama/Meta-Llama-3.1-8B", "system": "h200_sxm", "tp": 1}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "real.sqlite"
    return aisimulate.recommend(SEARCH, run=path)


def test_the_second_replay_is_the_first(found):
    inside = look_inside(replayable_config(found.run), found.best)
    assert inside.note == ""
    samples = inside.pools["agg"]
    columns = (inside.at_s, samples.running, samples.waiting, samples.held, samples.workers)
    assert {len(column) for column in columns} == {len(inside.at_s)}
    assert 150 <= len(inside.at_s) <= 250
    assert max(samples.running) <= 4, "no more than are in flight"
    assert set(samples.workers) == {found.best.config["replicas"]}
    assert inside.at_s == sorted(inside.at_s)
    assert inside.at_s[-1] * 1000 == pytest.approx(found.best.metrics["duration_ms"], rel=0.02)


def test_every_forward_has_an_origin(found):
    inside = look_inside(replayable_config(found.run), found.best)
    assert set(inside.origins) <= {"measured", "interpolated", "extrapolated", "transferred"}
    prompts = found.best.metrics["completed_requests"]
    assert sum(inside.origins.values()) > prompts, "each prompt needs a forward, and each token but the first"
    assert origins_text({"measured": 1, "interpolated": 3}, []) == "25.0% measured, 75.0% interpolated"
    assert origins_text({"extrapolated": 2}, ["moe: tokens"]) == "100.0% extrapolated (moe: tokens)"
    assert origins_text({}, []) == ""


def test_a_planner_shows_its_workers_and_decisions(tmp_path):
    space = SEARCH["search_space"] | {"planner_scaling_policy": ["load_180_5"], "gpu_budget": 3}
    space |= {"parallel_configs": [{"tp": 1, "attention_dp": 1, "moe_tp": 1, "moe_ep": 1, "replicas": 3}]}
    workload = {"isl": 256, "osl": 64, "request_rate": 2, "num_request_ratio": 30}
    goal = {"target": "goodput_per_gpu", "sla": {"ttft_ms": 1000, "itl_ms": 50}}
    search = SEARCH | {"search_space": space, "workload": workload, "goal": goal}
    found = aisimulate.recommend(search, run=tmp_path / "planner.sqlite")
    inside = look_inside(replayable_config(found.run), found.best)
    assert inside.note == ""
    assert inside.pools["agg"].workers[0] == 3
    assert min(inside.pools["agg"].workers) < 3, "an idle fleet shrinks"
    first = inside.decisions[0]
    assert (first.reason, first.before, first.after) == ("scale_down", {"agg": 3}, {"agg": 2})
    assert first.at_s == 5.0


def test_origins_are_those_of_the_performance_model():
    origins = ForwardOrigins(**ENGINE)
    model = origins._model
    for batch, context in ((1, 1023), (8, 5000), (64, 200_000)):
        assert origins.decode(batch, context).origin == model.decode(context, batch=batch).data.origin
    for isl in (1024, 1500, 200_000):
        assert origins.prefill(isl, 1, isl).origin == model.prefill(isl).data.origin


def test_a_trace_that_is_gone_is_told(tmp_path):
    run = made_run(tmp_path / "gone.sqlite", 4, model="meta-llama/Meta-Llama-3.1-8B", target="goodput")
    inside = look_inside(run.config, run.candidates[0])
    assert inside.note.startswith("could not be replayed again: trace.jsonl: no such file")
    assert inside.at_s == []


def test_other_results_than_recorded_are_told(found):
    other = found.best.model_copy(update={"metrics": found.best.metrics | {"duration_ms": 1.0}})
    assert "other results than the first" in look_inside(replayable_config(found.run), other).note


def test_the_page_holds_what_was_seen(found):
    inside = look_inside(replayable_config(found.run), found.best)
    text = page_html(found.run, inside={1: inside})
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["inside"]["1"]["pools"]["agg"]["running"] == inside.pools["agg"].running
    assert data["inside"]["1"]["origins_text"] == origins_text(inside.origins, inside.beyond)


def test_only_short_replays_are_repeated_unasked():
    assert is_short(Candidate(config={}, used_gpus=1, score=0.0, metrics={"num_requests": 5000.0}))
    assert not is_short(Candidate(config={}, used_gpus=1, score=0.0, metrics={"num_requests": 5001.0}))


def test_a_live_page_looks_inside_of_nothing(tmp_path, capsys):
    made_run(tmp_path / "made.sqlite", 4)
    assert main([str(tmp_path / "made.sqlite"), "--serve", "--inside", "1"]) == 2
    assert "--inside: has no effect with --serve" in capsys.readouterr().err
