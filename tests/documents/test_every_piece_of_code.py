"""Every piece of YAML, JSON, TOML and Python in the documents is valid, and runs."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tomllib

import pytest
import yaml

from aisimulate.config.planner import PlannerConfig
from aisimulate.replay.execute import execute
from aisimulate.spica.config import SmartSearchConfig
from tests.api.test_api import PAYLOAD, SEARCH

from .blocks import blocks

# They need what a test of their own provides: a package with a placement policy, files, a search of seconds.
RUN_ELSEWHERE = {
    ("docs/router.md", "python"): "tests/router/test_policy.py",
    ("docs/router.md", "toml"): "tests/router/test_policy.py",
    ("docs/python.md", "python"): "tests/api/test_example_scripts.py",
    ("docs/traces.md", "json"): "tests/workload/test_trace_formats.py",
}


def pieces(language):
    return [block for block in blocks(language) if (block.page, language) not in RUN_ELSEWHERE]


def merged(base, changes):
    """The base with the changes, object by object."""
    result = copy.deepcopy(base)
    for name, value in changes.items():
        inner = result.get(name)
        result[name] = merged(inner, value) if isinstance(value, dict) and isinstance(inner, dict) else value
    return result


@pytest.mark.parametrize("block", pieces("yaml"), ids=str)
def test_yaml_is_part_of_a_search(block):
    asked = yaml.safe_load(block.text)
    whole = asked if "workload" in asked else merged(SEARCH, asked)
    assert SmartSearchConfig.model_validate(whole)


@pytest.mark.parametrize("block", pieces("json"), ids=str)
def test_json_is_part_of_a_payload(block):
    for line in block.text.splitlines():
        part = json.loads(line)
        if part.get("provider") == "planner":
            assert PlannerConfig.model_validate(part["config"])
        elif "least_loaded" not in line:  # a policy of the reader's
            assert execute(merged(PAYLOAD, part))["completed_requests"] == 6


def test_toml_is_valid():
    for block in blocks("toml"):
        assert tomllib.loads(block.text), str(block)


@pytest.mark.parametrize("block", pieces("python"), ids=str)
def test_python_runs(block, tmp_path):
    script = tmp_path / "documented.py"
    search = tmp_path / "search.yaml"
    search.write_text(yaml.safe_dump(SEARCH))
    script.write_text(block.text.replace("examples/aisimulate/spica/configs/quickstart.yaml", str(search)))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
