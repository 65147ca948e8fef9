"""The example scripts run as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

from tests.api.test_api import PAYLOAD, SEARCH

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "examples" / "aisimulate" / "python"


def test_choosing_a_deployment(tmp_path):
    command = [sys.executable, str(SCRIPTS / "choose_a_deployment.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "winning configuration:" in done.stdout
    assert "candidates in the figure" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kubernetes.yaml", "result.html"]


def test_all_scripts_are_tested():
    assert [path.name for path in SCRIPTS.glob("*.py")] == ["choose_a_deployment.py"]


def test_the_documented_code_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)
    (tmp_path / "documented.py").write_text("\n".join(blocks))
    (tmp_path / "payload.yaml").write_text(yaml.safe_dump(PAYLOAD))
    goal = {"target": "goodput", "sla": {"ttft_ms": 500, "itl_ms": 20}}
    (tmp_path / "search.yaml").write_text(yaml.safe_dump(SEARCH | {"goal": goal}))
    command = [sys.executable, "documented.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "evidence: simulated with" in done.stdout
    assert (tmp_path / "result.html").is_file()
    assert (tmp_path / "search.sqlite").is_file()
