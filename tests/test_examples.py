"""Every shipped example is valid and can be run from the repository's root as it is."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from aisimulate.cli.main import main
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.workload.formats import load_trace
from tools import readme_output

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "aisimulate" / "spica"
CONFIGS = {path.stem: path for path in sorted((EXAMPLES / "configs").glob("*.yaml"))}
PLACEHOLDERS = ("replace", "/path/to", "todo", "<", "changeme")


@pytest.fixture(autouse=True)
def in_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def dry_run(name, capsys):
    code = main(["spica", "--config", str(CONFIGS[name]), "--dry-run", "--format", "json"])
    captured = capsys.readouterr()
    return code, captured


def test_the_expected_examples_are_shipped():
    experiments = {"router_latency", "planner_goodput", "glm5_pareto", "qwen3_235b_pareto"}
    assert set(CONFIGS) == {"quickstart", "smart_sweep", "e2e_latency", "kv_load_pareto"} | experiments


@pytest.mark.parametrize("name", CONFIGS)
def test_an_example_runs_as_shipped(name, capsys):
    code, captured = dry_run(name, capsys)
    assert code == 0, captured.err
    assert json.loads(captured.out)["max_measurements"] > 0


@pytest.mark.parametrize("name", CONFIGS)
def test_an_example_names_files_that_exist(name):
    trace = SmartSearchConfig.from_yaml(CONFIGS[name]).workload.trace_path
    assert trace is None or (not Path(trace).is_absolute() and Path(trace).is_file())


@pytest.mark.parametrize("name", CONFIGS)
def test_an_example_needs_no_editing(name):
    text = CONFIGS[name].read_text().lower()
    assert [word for word in PLACEHOLDERS if word in text] == []


@pytest.mark.parametrize("name", CONFIGS)
def test_an_example_is_described(name):
    assert f"configs/{name}.yaml" in (EXAMPLES / "README.md").read_text()


def test_quickstart_tries_every_layout_and_batching_choice(capsys):
    _, captured = dry_run("quickstart", capsys)
    plan = json.loads(captured.out)
    (branch,) = plan["branches"]
    assert (branch["deployment_mode"], branch["sampler"]) == ("agg", "grid")
    assert (branch["parallel_configs"], branch["finite_size"]) == (15, 135)
    assert plan["max_measurements"] == 135
    assert plan["notes"] == []


def test_smart_sweep_keeps_the_broad_space():
    config = SmartSearchConfig.from_yaml(CONFIGS["smart_sweep"])
    space = config.search_space
    assert space.deployment_mode == ["disagg", "agg"]
    assert space.router_mode == ["kv_router", "round_robin"]
    assert (space.gpu_budget, space.agg_block_size) == (32, 64)
    assert len(space.prefill_max_num_seqs) == 9
    assert len(space.planner_scaling_policy) == 7
    assert len(space.load_predictor_candidates) == 11
    assert config.workload.is_trace_based
    assert config.goal.target == "goodput_per_gpu"
    assert (config.sweep.max_rounds, config.sweep.parallel_evals) == (40, 16)


def test_smart_sweep_says_what_is_left_out(capsys):
    _, captured = dry_run("smart_sweep", capsys)
    notes = "\n".join(json.loads(captured.out)["notes"])
    assert [name for name in ("disagg",) if name not in notes] == []


def test_the_shipped_trace_is_a_cut_of_1000_requests():
    trace = load_trace([EXAMPLES / "traces" / "mooncake_conversation_1000.jsonl"], "mooncake", 512)
    assert (len(trace.sessions), trace.notes) == (1000, [])
    licence = (EXAMPLES / "traces" / "README.md").read_text()
    assert "Apache-2.0" in licence
    assert "kvcache-ai/Mooncake" in licence


def test_the_sine_is_what_the_tool_writes(tmp_path):
    target = tmp_path / "sine.jsonl"
    options = ["--duration-s", "1800", "--base-rate", "8", "--amplitude", "7"]
    subprocess.run([sys.executable, EXAMPLES / "tools" / "sine_trace.py", *options, target], check=True)
    assert gzip.decompress((EXAMPLES / "traces" / "sine_1800s.jsonl.gz").read_bytes()) == target.read_bytes()


def readme_blocks(language):
    return re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )


def test_the_readme_shows_what_the_demo_prints():
    assert readme_output.main(["--check"]) == 0


def test_the_readmes_replay_runs(capsys):
    code = next(block for block in readme_blocks("python") if "run_replay_json(" in block)
    namespace = {}
    exec(compile(code, "README.md", "exec"), namespace)
    assert namespace["report"]["completed_requests"] == 1000
    assert capsys.readouterr().out.split()[1] == str(namespace["report"]["goodput_completed_requests"])


def test_the_readmes_yaml_is_valid():
    (text,) = readme_blocks("yaml")
    assert SmartSearchConfig.model_validate(yaml.safe_load(text)).goal.target == "goodput_per_gpu"
