"""A folder with every file that the commands of the documents name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import yaml

from aisimulate.cli.main import main
from fidelity.made_logs import requests, spec, write_records
from tests.api.test_api import PAYLOAD, SEARCH
from tests.fidelity import made_results

from .blocks import ROOT

RUN = {"spec": spec(), "traffic": PAYLOAD["traffic"]}
TABLE = "concurrency,ttft_ms,tpot_ms\n1,30,7\n4,60,8\n"
MOONCAKE = '{"timestamp": 5, "input_length": 8, "output_length": 2, "hash_ids": [1]}\n'
TRACES = {
    "mooncake": MOONCAKE,
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2026-01-05 12:00:00.5,8,2\n",
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,8,2,10,API log\n",
}


def furnish(folder: Path) -> None:
    """Write the files, and record a search, also as the one that a page calls `glm.sqlite`."""
    planner = {"provider": "planner", "config": {"optimization_target": "throughput"}}
    scaled = {**RUN, "spec": {**RUN["spec"], "adapters": {"scaling": planner}}}
    logged = {"spec": {**spec(), "requests": requests(count=20)}}
    write_records(folder / "requests.jsonl", requests(count=20))
    texts = {
        "search.yaml": yaml.safe_dump(SEARCH),
        "engine.yaml": yaml.safe_dump({"engine": spec()["engine"]}),
        "payload.json": json.dumps(logged),
        "payload.yaml": yaml.safe_dump(RUN),
        "FILE": json.dumps(scaled),
        "benchmark.csv": TABLE,
        "measured.json": made_results.vllm(),
        "trace.jsonl": MOONCAKE,
        **{f"TRACE.{name}": text for name, text in TRACES.items()},
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "examples").symlink_to(ROOT / "examples")
    scaling = ["search_space.planner_scaling_policy=[load_180_5]", "workload.request_rate=4"]
    changes = [word for change in (*scaling, "workload.concurrency=null") for word in ("--set", change)]
    record = ["--quiet", "--run", str(folder / "glm.sqlite")]
    assert main(["spica", "--config", str(folder / "search.yaml"), *changes, *record]) == 0
    (folder / "runs").mkdir()
    shutil.copy(folder / "glm.sqlite", folder / "runs" / "searched.sqlite")
