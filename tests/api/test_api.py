"""`simulate` and `recommend`, as scripts and notebooks call them."""

from __future__ import annotations

import json

import pytest
import yaml

import aisimulate
from aisimulate.api.recommendation import Recommendation
from aisimulate.core.errors import InputError, UnsupportedError
from aisimulate.report.runs import export_csv, export_json
from aisimulate.spica.config import SmartSearchConfig
from tests.page.made_run import made_run

PAYLOAD = {
    "spec": {
        "version": 1,
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {
            "tensor_parallel_size": 1,
            "rank": {
                "backend": "vllm",
                "num_gpu_blocks": 1000,
                "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0},
            },
        },
    },
    "traffic": {
        "source_type": "synthetic",
        "load_type": "concurrency",
        "concurrency": 2,
        "isl": 64,
        "osl": 8,
        "request_count": 6,
    },
}
SEARCH = {
    "search_space": {
        "model_name": "meta-llama/Meta-Llama-3.1-8B",
        "hardware_sku": "h200_sxm",
        "gpu_budget": 2,
        "context_length": 4096,
        "deployment_mode": ["agg"],
        "router_mode": ["round_robin"],
        "planner_scaling_policy": ["disabled"],
        "agg_max_num_batched_tokens": [8192],
        "agg_max_num_seqs": [256],
    },
    "workload": {"isl": 256, "osl": 16, "concurrency": 4, "num_request_ratio": 2},
    "goal": {"target": "throughput_per_gpu"},
    "sweep": {"max_rounds": 1, "candidates_per_round": 3, "parallel_evals": 1},
}


@pytest.fixture(scope="module")
def simulation():
    return aisimulate.simulate(PAYLOAD)


def test_a_simulation_is_the_report_of_the_facade(simulation):
    facade = json.loads(aisimulate.run_replay_json(json.dumps(PAYLOAD)))
    for name in ("completed_requests", "mean_ttft_ms", "output_throughput_tok_s", "per_request"):
        assert simulation[name] == facade[name]


def test_a_simulation_tells_how_far_its_data_can_be_trusted(simulation):
    assert "confidence" not in simulation.report  # times of one's own
    config = {"model": "meta-llama/Meta-Llama-3.1-8B", "backend": "vllm", "system": "h200_sxm", "tp": 1}
    timing = {"type": "external", "provider": "aic", "config": config}
    engine = {"rank": {"backend": "vllm", "timing_model": timing}}
    measured = aisimulate.simulate(PAYLOAD | {"spec": PAYLOAD["spec"] | {"engine": engine}})
    assert measured["confidence"] == {"grade": "high", "reasons": []}


def test_a_simulation_shows_itself(simulation):
    assert "Completed requests" in repr(simulation)
    html = simulation._repr_html_()
    assert html.startswith("<table><caption>Replay</caption>")
    assert "<td>completed requests</td><td>6</td>" in html


def test_a_simulation_as_frame_and_figure(simulation):
    frame = simulation.to_pandas()
    assert len(frame) == 6
    assert frame["ttft_ms"].tolist() == [item["ttft_ms"] for item in simulation.requests]
    figure = simulation.latency_figure()
    assert [len(trace.x) for trace in figure.data] == [6, 6, 6]
    assert figure.data[0].y[-1] == 1.0


def test_a_payload_in_a_file(tmp_path, simulation):
    path = tmp_path / "payload.yaml"
    path.write_text(yaml.safe_dump(PAYLOAD))
    assert aisimulate.simulate(path)["mean_ttft_ms"] == simulation["mean_ttft_ms"]
    with pytest.raises(InputError, match="could not read payload"):
        aisimulate.simulate(tmp_path / "none.json")


def test_without_records_there_is_no_frame():
    payload = PAYLOAD | {"spec": PAYLOAD["spec"] | {"record_per_request": False}}
    with pytest.raises(InputError, match="there are no records"):
        aisimulate.simulate(payload).to_pandas()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Recommendation(made_run(tmp_path_factory.mktemp("runs") / "made.sqlite", model="<b>acme</b>"))


def test_a_recommendation_shows_itself(made):
    assert "evidence: simulated with" in repr(made)
    html = made._repr_html_()
    assert html.count("<tr>") == 11
    assert "<b>" not in html


def test_a_recommendation_as_frame_figure_page_and_files(made):
    frame = made.to_pandas()
    assert len(frame) == 36
    assert frame["place"].dropna().tolist() == list(range(1, len(made.candidates) + 1))
    figure = made.figure()
    best = made.best.metrics["mean_output_token_throughput_per_user"]
    assert (len(figure.data[0].x), figure.data[0].x[0]) == (36, best)
    assert made.page().startswith("<!doctype html>")
    assert list(made.export("vllm")) == ["agg.sh"]
    with pytest.raises(InputError, match="there is no target 'nomad'"):
        made.export("nomad")
    with pytest.raises(InputError, match="there is no figure 'speed'"):
        made.figure(up="speed")


def test_a_missing_library_is_told(made, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(UnsupportedError, match="pandas is needed for this"):
        made.to_pandas()


def test_nothing_feasible(tmp_path):
    found = Recommendation(made_run(tmp_path / "empty.sqlite", 0))
    assert repr(found) == "no feasible candidate in 0 attempts\n"
    assert found._repr_html_().count("<tr>") == 1
    with pytest.raises(InputError, match="no feasible candidate"):
        found.export("vllm")


def test_a_real_search_from_a_mapping_and_its_record(tmp_path):
    found = aisimulate.recommend(SEARCH, run=tmp_path / "kept.sqlite")
    assert (tmp_path / "kept.sqlite").is_file()
    assert found.best.score == max(candidate.score for candidate in found.candidates)
    assert len(found.to_pandas()) == len(found.candidates) > 0
    assert found.confidence() == {"grade": "high", "reasons": []}
    assert set(found.to_pandas()["confidence"]) == {"high"}
    exported = json.loads(export_json(found.run))["attempts"]
    assert {attempt["confidence"]["grade"] for attempt in exported if attempt["metrics"]} == {"high"}
    assert "confidence.grade" in export_csv(found.run).splitlines()[0].split(",")
    again = aisimulate.recommend(SmartSearchConfig.model_validate(SEARCH))
    assert [item.score for item in again.candidates] == [item.score for item in found.candidates]


def test_a_bad_search_is_one_line():
    with pytest.raises(InputError, match=r"goal\.target") as caught:
        aisimulate.recommend(SEARCH | {"goal": {"target": "speed"}})
    assert "\n" not in str(caught.value)


def test_a_bad_search_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"could not read config .*none\.yaml"):
        aisimulate.recommend(tmp_path / "none.yaml")
    path = tmp_path / "search.yaml"
    path.write_text("goal: [")
    with pytest.raises(InputError, match=r"malformed YAML in .*search\.yaml"):
        aisimulate.recommend(path)
    path.write_text(yaml.safe_dump(SEARCH | {"goal": {"target": "speed"}}))
    with pytest.raises(InputError, match=r"invalid config .*search\.yaml.*goal\.target"):
        aisimulate.recommend(str(path))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("nowhere.yaml", "could not read config 'nowhere.yaml': No such file"),
        ("broken.yaml", "malformed YAML in 'broken.yaml'"),
        (5, "config: expected a SmartSearchConfig, a mapping or a path, got 5"),
    ],
)
def test_a_search_that_cannot_be_read_is_one_line(tmp_path, monkeypatch, given, problem):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.yaml").write_text("goal: [")
    with pytest.raises(InputError) as caught:
        aisimulate.recommend(given)
    assert problem in str(caught.value) and "\n" not in str(caught.value)
