"""The screen of a whole branch, and the command that prints it."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import yaml
from screen_fakes import SPACE

from aisimulate.cli.screen import main
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.kv_estimate import resolve_backend_version
from aisimulate.spica.plan import plan_search
from aisimulate.spica.screen.branch_screen import BranchScreen
from aisimulate.spica.screen.whole_pool import screen_branch

ONE_BACKEND = SPACE | {
    "backend": ["vllm"],
    "agg_max_num_batched_tokens": [8192],
    "agg_max_num_seqs": [256, 512],
    "prefill_max_num_seqs": [1, 4],
    "decode_max_num_seqs": [256],
    "context_length": 4096,
}
WORKLOAD = {"isl": 512, "osl": 128, "kv_load_ratio": [0.0, 1.0], "num_request_ratio": 4}


def given(goal="pareto", space=(), workload=()):
    load = {name: value for name, value in (WORKLOAD | dict(workload)).items() if value is not None}
    return {"search_space": ONE_BACKEND | dict(space), "workload": load, "goal": {"target": goal}}


def screened(mode, **changes):
    config = SmartSearchConfig(**given(space={"deployment_mode": [mode]}, **changes))
    plan = plan_search(config)
    screen = BranchScreen(plan.config, {"vllm": resolve_backend_version("h200_sxm", "vllm")})
    return plan, screen, screen_branch(plan.config, plan.branches[0], screen)


@pytest.mark.parametrize("mode", ["agg", "disagg"])
def test_the_pool_holds_what_single_estimates_say(mode):
    _, screen, pool = screened(mode)
    every, rows = pool.every_point(), pool.rows
    capacity = {}
    for point in np.random.default_rng(1).choice(len(rows.point_rows), 40, replace=False):
        number, row = rows.point_structures[point], rows.point_rows[point]
        selection, config = pool.structures.point(number)
        in_flight = rows.loads[row] * pool.structures.copies[number]
        if number not in capacity:
            capacity[number] = screen.capacity_of(selection, config)
        ratio = (in_flight + 0.5) / capacity[number]
        alone = screen.estimate([(selection | {"kv_load_ratio": ratio}, config)])
        for name in ("output_tok_s", "tok_s_user", "ttft_ms", "e2e_ms", "gpus"):
            assert getattr(every, name)[point] == pytest.approx(getattr(alone, name)[0], rel=1e-9), name


def test_copies_are_computed_once():
    _, _, pool = screened("agg")
    computed, points = len(pool.rows.units), len(pool.rows.point_rows)
    shapes = {config.shape for _, config in pool.structures.units}
    assert len(pool.structures.units) == 2 * len(shapes)  # two settings each, one worker
    assert points > 2 * computed
    assert set(pool.structures.copies) == {1, 2, 3, 4}


def test_a_fixed_concurrency_is_split():
    _, _, pool = screened("agg", workload={"kv_load_ratio": None, "concurrency": 12})
    loads = pool.rows.loads[pool.rows.point_rows]
    assert (loads * pool.structures.copies == 12).all()
    assert len(loads) == len(pool.structures.copies)


def written(tmp_path, config):
    path = tmp_path / "search.yaml"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_the_command_prints_the_front(tmp_path, capsys):
    assert main([written(tmp_path, given()), "--top", "40"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("ESTIMATE by formulas, nothing was replayed.")
    assert "front of estimated throughput_per_gpu and throughput_per_user" in shown.out
    assert "TP1 " in shown.out and " 1 (to x4) " in shown.out
    assert "! " in shown.out and "prefill near its limit" in shown.out
    assert "CPU s" in shown.err and "CPU s" not in shown.out


def test_the_front_of_the_command_is_one(tmp_path, capsys):
    assert main([written(tmp_path, given()), "--format", "json", "--top", "500", "--quiet"]) == 0
    shown = capsys.readouterr()
    answer = json.loads(shown.out)
    assert answer["estimate"] is True and shown.err == ""
    points = [
        (row["values"]["throughput_per_gpu"], row["values"]["throughput_per_user"]) for row in answer["front"]
    ]
    assert len(points) == answer["front_size"] > 20
    assert points == sorted(points, key=lambda point: point[1])
    assert all(low[0] > high[0] for low, high in pairwise(points))
    for row in answer["front"]:
        config = row["config"]
        per_gpu = row["values"]["throughput"] / row["used_gpus"]
        assert per_gpu == pytest.approx(row["values"]["throughput_per_gpu"])
        assert config["concurrency"] == int(config["kv_load_ratio"] * config["kv_load_concurrency_capacity"])


def test_a_scalar_goal_has_a_ranking_of_its_own(tmp_path, capsys):
    config = given("throughput", workload={"kv_load_ratio": 0.05})
    assert main([written(tmp_path, config), "--format", "json", "--top", "5"]) == 0
    answer = json.loads(capsys.readouterr().out)
    values = [row["values"]["throughput"] for row in answer["best"]]
    assert values == sorted(values, reverse=True) and len(values) == 5
    assert answer["best"][0]["used_gpus"] == 4  # a total grows with the workers
    assert answer["best"][0]["equal"] >= 1  # 256 or 512 sequences make no difference
    assert answer["front_objectives"] == ["throughput_per_gpu", "throughput_per_user"]


def test_what_scales_is_left_out_with_a_note(tmp_path, capsys):
    config = given(space={"planner_scaling_policy": ["disabled", "load_180_5"], "router_mode": ["kv_router"]})
    assert main([written(tmp_path, config), "--top", "1"]) == 0
    error = capsys.readouterr().err
    assert "fleets that scale are not estimated" in error
    assert "every router is estimated as round_robin" in error


def test_what_cannot_be_estimated_is_refused(tmp_path, capsys):
    config = given(workload={"turns_per_session": 3})
    assert main([written(tmp_path, config)]) == 2
    assert "no estimate: sessions and shared prefixes cannot be screened" in capsys.readouterr().err
    assert main([str(tmp_path / "none.yaml")]) == 2


def test_progress_of_a_long_screen(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("aisimulate.spica.screen.whole_pool._BLOCK", 50)
    monkeypatch.setattr("aisimulate.cli.screen._PROGRESS_S", -1.0)
    assert main([written(tmp_path, given()), "--top", "1"]) == 0
    assert "screen: 50 of " in capsys.readouterr().err


def test_another_version_of_the_data_is_used(tmp_path, capsys):
    path = written(tmp_path, given())
    versions = []
    for options in ([], ["--set", "search_space.backend_version={vllm: next}"]):
        assert main([path, "--format", "json", "--top", "1", *options]) == 0
        versions.append(json.loads(capsys.readouterr().out)["backend_versions"]["vllm"])
    assert versions[0] != versions[1]


def test_values_are_replaced_for_one_call(tmp_path, capsys):
    path = written(tmp_path, given())
    assert main([path, "--set", "search_space.gpu_budget=2", "--format", "json", "--top", "1"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["config"]["search_space"]["gpu_budget"] == 2
    assert max(row["used_gpus"] for row in answer["front"]) <= 2
