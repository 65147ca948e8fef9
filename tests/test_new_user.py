"""The README's way from a user's own model and trace to a ranked answer, run by a shell as it stands."""

import os
import random
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parents[1]


def written_lines():
    section = (ROOT / "README.md").read_text().partition("## Your own model and traffic")[2]
    return re.search(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[1]


def write_trace(path, requests):
    drawn = random.Random(5)
    at = datetime(2026, 1, 5, 12, tzinfo=UTC)
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for _ in range(requests):
        at += timedelta(seconds=drawn.expovariate(2.0))
        rows.append(f"{at:%Y-%m-%d %H:%M:%S.%f},{drawn.randint(200, 3000)},{drawn.randint(20, 200)}")
    path.write_text("\n".join(rows) + "\n")


def test_the_lines_of_the_readme_lead_to_an_answer(tmp_path):
    write_trace(tmp_path / "requests.csv", 60)
    command = tmp_path / "bin" / "aisimulate"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m aisimulate "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "AISIMULATE_RUNS": str(tmp_path / "runs"),
    }
    done = subprocess.run(
        ["sh", "-eu", "-c", written_lines()], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    assert re.search(r"^requests +60 in 60 sessions", shown, re.MULTILINE)
    assert "winning configuration:" in shown
    assert re.search(r"^requests: 60 of 60 completed", shown, re.MULTILINE)
    assert "verify on hardware" in shown
    assert (tmp_path / "answer.html").stat().st_size > 1e6
    assert "vllm serve Qwen/Qwen3-32B" in (tmp_path / "deploy" / "agg.sh").read_text()
