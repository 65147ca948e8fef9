"""A model that lies in a folder: what a search with it leaves behind works from any other folder."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import aiconfigurator_core
import pytest
import yaml
from exported_cases import agg

from aisimulate.cli import export, report, runs, simulate, spica, whatif
from aisimulate.report.export.targets import TARGETS, export_candidate
from aisimulate.spica.config import OptimizationGoal
from aisimulate.timing.aic.names import model_folder

CONFIGS = Path(aiconfigurator_core.__file__).parent / "model_configs"

SEARCH = {
    "search_space": {
        "model_name": "./mine",
        "hardware_sku": "h200_sxm",
        "gpu_budget": 1,
        "context_length": 4096,
        "deployment_mode": ["agg"],
        "parallel_configs": [{"tp": 1, "replicas": 1}],
        "agg_max_num_batched_tokens": [8192, 16384],
        "agg_max_num_seqs": [256],
        "router_mode": ["round_robin"],
        "planner_scaling_policy": ["disabled"],
    },
    "workload": {"trace_path": "t.jsonl"},
    "goal": {"target": "e2e_latency"},
    "sweep": {"max_rounds": 1, "candidates_per_round": 2, "parallel_evals": 1, "max_eval_seconds": None},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    (home / "mine").mkdir()
    shutil.copy(CONFIGS / "meta-llama--Meta-Llama-3.1-8B_config.json", home / "mine" / "config.json")
    row = {"timestamp": 0, "input_length": 64, "output_length": 8, "hash_ids": [1]}
    (home / "t.jsonl").write_text("".join(json.dumps(row | {"timestamp": at}) + "\n" for at in range(4)))
    (home / "search.yaml").write_text(yaml.safe_dump(SEARCH))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert spica.main(["--config", "search.yaml", "--quiet", "--run", "run.sqlite"]) == 0
    return home


@pytest.fixture
def elsewhere(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    return tmp_path


def run_of(made):
    return str(made / "run.sqlite")


def test_a_script_names_the_folder_from_wherever_it_is_started(made, elsewhere, capsys):
    assert export.main([run_of(made), "best", "--to", "vllm"]) == 0
    words = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert words[words.index("serve") + 1] == str(made / "mine")


def test_a_replay_runs_from_another_folder(made, elsewhere, capsys):
    assert export.main([run_of(made), "best", "--to", "replay", "-o", "rp"]) == 0
    assert simulate.main(["--payload", "rp/replay.json"]) == 0
    assert "4 requests arrived, 0 rejected" in capsys.readouterr().out


def test_the_record_is_replayed_from_another_folder(made, elsewhere, capsys):
    assert runs.main(["replay", run_of(made)]) == 0
    assert whatif.main([run_of(made), "--quiet"]) == 0


def test_the_page_looks_inside_and_does_not_tell_where_the_model_lies(made, elsewhere):
    assert report.main([run_of(made), "-o", "answer.html"]) == 0
    page = (elsewhere / "answer.html").read_text()
    assert "could not be replayed again" not in page
    assert str(made) not in page


def test_a_search_that_goes_on_compares_as_the_same(made, elsewhere, monkeypatch, capsys):
    copy = made / "again.sqlite"
    shutil.copy(made / "run.sqlite", copy)
    assert spica.main(["--resume", str(copy), "--quiet"]) == 2
    assert f"'./mine' was '{made / 'mine'}' when the search began" in capsys.readouterr().err
    monkeypatch.chdir(made)
    assert spica.main(["--resume", str(copy), "--quiet"]) == 0
    capsys.readouterr()
    assert runs.main(["compare", run_of(made), str(copy)]) == 0
    told = capsys.readouterr().out
    assert "trace_path" not in told
    assert "model_name" not in told


@pytest.mark.parametrize("target", [name for name in TARGETS if name not in ("sglang", "trtllm")])
def test_every_target_names_a_place_that_is_there_or_says_that_it_is_not(target):
    goal = OptimizationGoal.model_validate({"target": "goodput", "sla": {"ttft_ms": 1000, "itl_ms": 30}})
    made = export_candidate(agg(model_name="./my14b"), goal, target, "/data/my14b")
    text = "".join(made.files.values())
    assert "./my14b" not in text
    told = [
        remark for remark in made.remarks if remark.startswith("the model: its folder /data/my14b must be")
    ]
    assert len(told) == (target not in ("vllm", "compose"))
    assert all(f"NOT EXPRESSED HERE: {remark}" in text for remark in told)


def test_compose_mounts_the_folder():
    goal = OptimizationGoal.model_validate({"target": "throughput"})
    made = export_candidate(agg(model_name="./my14b"), goal, "compose", "/data/a $b/my14b")
    worker = yaml.safe_load(made.files["compose.yaml"])["services"]["agg-0"]
    mount = {"type": "bind", "source": "/data/a $$b/my14b", "target": "/models/my14b", "read_only": True}
    assert mount in worker["volumes"]
    assert "/models/my14b" in worker["command"]


def test_llmd_takes_the_model_from_a_volume():
    goal = OptimizationGoal.model_validate({"target": "throughput"})
    made = export_candidate(agg(model_name="./my14b"), goal, "llm-d", "/data/my14b")
    artifacts = yaml.safe_load(made.files["values.yaml"])["modelArtifacts"]
    assert (artifacts["name"], artifacts["uri"]) == ("my14b", "pvc://model-volume/my14b")


def test_what_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").mkdir()
    assert model_folder("plain") == model_folder("./plain") == str(tmp_path / "plain")
    assert model_folder("acme/model") is None
    (tmp_path / "Qwen" / "Qwen3-32B").mkdir(parents=True)
    assert model_folder("Qwen/Qwen3-32B") is None, "bundled models win"
