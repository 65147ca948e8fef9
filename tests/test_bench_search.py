"""The benchmark of the search: its problems, its loop, its bounds."""

from __future__ import annotations

import json

import numpy as np
import pytest

from aisimulate.spica.sampler import make_branch_sampler
from tools.bench_search import child
from tools.bench_search.problems import PROBLEMS, best_score
from tools.bench_search.rounds import search
from tools.bench_search.settings import SETTINGS, Row, Setting
from tools.bench_search.table import HEADER, table_lines

SIZES = {"disagg": 43_216, "agg": 648, "router": 324}


@pytest.fixture(scope="module")
def agg():
    return PROBLEMS["agg"]()


def random_trail(problem, best, evaluations=40, seed=1):
    sampler = make_branch_sampler(
        problem.branch, study_id="x", objectives=problem.objectives, seed=seed, policy="random"
    )
    return search(problem, sampler, evaluations, best)


@pytest.mark.parametrize("name", list(SIZES))
def test_the_pools_are_those_of_the_published_problems(name):
    branch = PROBLEMS[name]().branch
    assert sum(map(len, branch.supported_backends.values())) == SIZES[name]


def test_every_setting_names_a_problem_with_a_known_best():
    for setting in SETTINGS:
        assert setting.problem in PROBLEMS
        assert best_score(setting.problem) > 0


def test_the_best_of_the_router_problem_is_found_by_trying_everything():
    assert PROBLEMS["router"]().exhaustive() == pytest.approx(best_score("router"), rel=1e-12)


def test_a_share_is_part_of_the_best_and_grows(agg):
    trail = random_trail(agg, best_score("agg"), 80)
    assert 0.2 < trail.shares[40] < trail.shares[80] < 1.0
    assert trail.measured == 80
    assert trail.duplicates == 0


def test_a_search_repeats_itself(agg):
    first, second = (random_trail(agg, best_score("agg")) for _ in range(2))
    assert (first.shares, first.infeasible) == (second.shares, second.infeasible)


@pytest.mark.parametrize("screen", ["on", "off"])
def test_a_process_prints_how_its_search_went(monkeypatch, capsys, screen):
    monkeypatch.setattr("sys.argv", ["child", "agg", "pool-gp", screen, "1", "40"])
    assert child.main() == 0
    trail = json.loads(capsys.readouterr().out)
    assert (trail["measured"], trail["duplicates"]) == (40, 0)
    assert (trail["shares"]["40"] > 0.87) == (screen == "on")  # the screen knows where to begin


class Stuck:
    """Asks for the same deployment again and again."""

    def __init__(self, branch):
        self.branch, self.told = branch, 0
        self.only = make_branch_sampler(branch, study_id="x", seed=1, policy="random").suggest(1)

    def suggest(self, count):
        return self.only * count

    def observe(self, suggestion, metrics):
        self.told += 1

    observe_infeasible = observe


def test_duplicates_are_told_again_and_do_not_count(agg):
    sampler = Stuck(agg.branch)
    trail = search(agg, sampler, 40, best_score("agg"))
    assert (trail.measured + trail.infeasible, trail.duplicates, sampler.told) == (1, 87, 88)


def test_the_screen_of_a_problem_is_near_its_truth(agg):
    sampler = make_branch_sampler(
        agg.branch, study_id="x", objectives=agg.objectives, seed=3, policy="random"
    )
    logs = []
    for suggestion in sampler.suggest(200):
        measured = agg.measure(suggestion.selection, suggestion.parallel_config)
        if measured is not None:
            screened = agg.screen(suggestion.selection, suggestion.parallel_config)
            logs.append(np.log(measured.true) - np.log(screened))
    assert np.abs(np.median(logs, axis=0)).max() < 0.15


def run(share, suggest_s=0.1, peak_mb=100.0, duplicates=0):
    return {
        "shares": {"40": share, "320": share},
        "suggest_s": {"40": 0.1, "320": suggest_s},
        "peak_mb": peak_mb,
        "duplicates": duplicates,
        "infeasible": 2,
    }


SETTING = Setting("agg", True, shares={40: 0.5, 320: 0.9})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"share": 0.8}, ["0.800 at 320 measurements, below 0.90"]),
        ({"suggest_s": 0.7}, ["0.70 CPU s per batch at 320, above 0.6"]),
        ({"peak_mb": 301.0}, ["301 MB, above 300"]),
        ({"duplicates": 1}, ["3 duplicates"]),
    ],
)
def test_bounds(changes, words):
    row = Row(SETTING, "pool-gp", [run(**({"share": 0.95} | changes))] * 3)
    assert [text.removeprefix("agg with screen: ") for text in row.missed()] == words


def test_shares_are_medians_over_the_seeds():
    row = Row(SETTING, "pool-gp", [run(0.1), run(0.9), run(0.8)])
    assert row.shares() == {40: 0.8, 320: 0.8}


def test_the_table_has_the_bounds_below_our_own_rows_only():
    rows = [Row(SETTING, name, [run(0.95)]) for name in ("pool-gp", "optuna-tpe")]
    lines = table_lines(rows)
    assert lines[0].split()[:3] == list(HEADER[:3])
    assert [line.split()[3] if "agg" in line else line.split()[0] for line in lines[1:]] == [
        "pool-gp",
        "bound",
        "optuna-tpe",
    ]
