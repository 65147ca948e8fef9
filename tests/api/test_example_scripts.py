"""The example scripts run as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "examples" / "aisimulate" / "python"


def test_choosing_a_deployment(tmp_path):
    command = [sys.executable, str(SCRIPTS / "choose_a_deployment.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "winning configuration:" in done.stdout
    assert "candidates in the figure" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kubernetes.yaml", "result.html"]


def test_all_scripts_are_tested():
    assert [path.name for path in SCRIPTS.glob("*.py")] == ["choose_a_deployment.py"]
