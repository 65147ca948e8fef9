"""The comparisons of tools/parity that need no peer."""

import copy
import json
import re

import pytest

from tools.bench.scenarios import BENCHMARKS, SCENARIOS, SHIPPED_CUT, SHIPPED_TRACES
from tools.parity import aic_modes, router_spread


def test_measured_timing_is_that_of_the_core_and_the_surface_near_it(tmp_path, capsys, monkeypatch):
    scenario = json.loads((SCENARIOS / "20_aic_qwen32b_tp4_conv_w8.json").read_text())
    scenario["workload"]["path"] = SHIPPED_CUT
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(scenario))
    arguments = ["aic_modes", str(path), "--traces", str(SHIPPED_TRACES), "--requests", "40"]
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.setattr(aic_modes.ExactTiming, "made", [])

    assert aic_modes.main() == 0
    equal, passes = re.search(r"([\d,]+)/([\d,]+) distinct passes equal", capsys.readouterr().out).groups()
    assert equal == passes != "0"


def test_a_difference_of_means_is_relative():
    surface, exact = (
        {"mean_ttft_ms": 101.0, "median_ttft_ms": 1.0},
        {"mean_ttft_ms": 100.0, "median_ttft_ms": 2.0},
    )
    assert aic_modes.mean_differences(surface, exact) == {"mean_ttft_ms": pytest.approx(0.01)}


@pytest.mark.parametrize(
    ("ours", "inside"), [(10.0, True), (12.0, True), (12.1, True), (12.3, False), (9.7, False)]
)
def test_ours_is_within_what_the_runs_span(ours, inside):
    runs = [dict.fromkeys(router_spread.FIGURES, value) for value in (10.0, 11.0, 12.0)]
    lines, fine = router_spread.table(runs, dict.fromkeys(router_spread.FIGURES, ours), [])
    assert fine is inside
    assert all(line.endswith("within" if inside else "OUTSIDE") for line in lines[1:])


def test_drawn_runs_get_another_seed_each():
    scenario = copy.deepcopy(next(item for item in BENCHMARKS if item.name == "02_conv_kv_8w").scenario())
    seeds = [router_spread.drawing(scenario, seed)["router"]["config"]["seed"] for seed in range(3)]
    assert seeds == [0, 1, 2]
