"""The published experiment: its deployments are found in the pools of today, and its plot can be drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from aisimulate.spica.ledger import Ledger
from aisimulate.spica.plan import plan_search
from aisimulate.spica.samplers.random_sampler import RandomSampler
from aisimulate.spica.search import run_search
from tools.published_experiment import page
from tools.published_experiment.fixed import FIXED_POINTS, PUBLISHED, FixedSampler
from tools.published_experiment.records import (
    FIXED,
    SEARCHED,
    config_of,
    read_record,
    spending,
    spent_on,
)
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


def test_a_section_tells_what_a_record_tells(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "IMAGES", tmp_path)
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    path, alone = tmp_path / "qwen_search.sqlite", tmp_path / "qwen_alone.json"
    with Ledger.create(path) as ledger:
        config = config_of("qwen", SEARCHED, 2, 1)
        with spending(path, 1):
            run_search(config, evaluator=MadeUpEvaluator(), sampler_factory=_first_points, ledger=ledger)
    record = read_record(path)
    assert record.spent.parallel == 1 and record.spent.cpu_s > 0
    alone.write_text('{"points": 3, "figures": 12, "differ": [2]}', encoding="utf-8")
    text = page.write_page({"qwen": ({SEARCHED: record}, alone)}).read_text(encoding="utf-8")
    assert "2 rounds of 8, seed 1, 16 candidates" in text
    assert "2 of 3 points of the search's front give the same figures, 12 in all" in text
    front = len(record.run.candidates)
    assert f"| points of the front | {front} |" in text
    assert "## GLM-5 on 72 B200\n\nThe config is there" in text
    assert (tmp_path / "qwen3-235b-pareto.svg").read_text().startswith("<svg")
    with spending(path, 1):
        pass
    assert spent_on(path).cpu_s > record.spent.cpu_s


class MadeUpEvaluator:
    def evaluate(self, plan, *, concurrency_override=None):
        users = 100.0 / concurrency_override**0.5
        return {
            "output_throughput_tok_s": users * concurrency_override,
            "mean_output_token_throughput_per_user": users,
            "gpu_hours": 1.0,
            "duration_ms": 3_600_000.0,
        }


def _first_points(branch, **asked):
    return RandomSampler(branch, seed=1)
