"""The published experiment: its deployments are found in the pools of today, and its plot can be drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from aisimulate.spica.plan import plan_search
from tools.published_experiment.__main__ import FIXED, config_of
from tools.published_experiment.fixed import FIXED_POINTS, PUBLISHED, FixedSampler
from tools.published_experiment.svg import Series, front_svg


@pytest.fixture(scope="module")
def suggested():
    config = config_of("glm", FIXED, None, 1)
    branch = plan_search(config).branches[0]
    sampler = FixedSampler(branch, study_id="x", objectives=None, search=config)
    return [*sampler.suggest(3), *sampler.suggest(99)], sampler


def test_every_published_deployment_is_in_the_pool(suggested):
    suggestions, sampler = suggested
    assert len(suggestions) == len(FIXED_POINTS) == 6 * 4 + 1
    assert sampler.suggest(1) == []
    first = suggestions[0].parallel_config
    assert (first.prefill.replicas, first.decode.replicas, first.decode.shape.moe_tp) == (2, 6, 8)
    gpus = {(s.parallel_config.prefill.total_gpus + s.parallel_config.decode.total_gpus) for s in suggestions}
    assert gpus == {64, 56, 72, 24}


def test_loads_fall_from_the_published_one_or_what_fits(suggested):
    loads = [suggestion.selection["kv_load_ratio"] for suggestion in suggested[0]]
    assert all(0.0 < load <= 1.0 for load in loads)
    assert loads[len(PUBLISHED)] < loads[0]


def test_the_plot_is_one_drawing_with_every_front():
    made = [
        Series("search", "#111111", [(1.0, 2.0), (20.0, 900.0)], [(20.0, 900.0), (50.0, 30.0)]),
        Series("random", "#222222", [(9.0, 9.0)], [(9.0, 9.0)]),
    ]
    root = ElementTree.fromstring(front_svg(made))
    space = "{http://www.w3.org/2000/svg}"
    assert [text.text for text in root.iter(f"{space}text")][-2:] == ["search", "random"]
    steps = [path.get("d") for path in root.iter(f"{space}path") if path.get("stroke") == "#111111"]
    assert len(steps) == 1 and steps[0].count("L") == 4
