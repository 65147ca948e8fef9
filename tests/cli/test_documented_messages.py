"""Every message that the documentation explains is one that the program says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from aisimulate.cli.main import main
from aisimulate.spica.ledger import Ledger
from tests.api.test_api import SEARCH
from tests.page.made_run import asked, made_run, outcome, sample

DOCUMENT = Path(__file__).parents[2] / "docs" / "index.md"


def documented():
    table = DOCUMENT.read_text().partition("## Questions about messages")[2]
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def search(folder, **space):
    path = folder / "search.yaml"
    path.write_text(yaml.safe_dump(SEARCH | {"search_space": SEARCH["search_space"] | space}))
    return ["spica", "--config", str(path), "--no-run"]


def other_versions(folder):
    path = folder / "old.sqlite"
    with Ledger.create(path) as ledger:
        config = SEARCH
        ledger.describe(asked=config, config=config, versions={"aisimulate": "0.0.1"}, status="interrupted")
    return ["spica", "--resume", str(path)]


def missed_sla(folder):
    path = folder / "missed.sqlite"
    config = asked(target="goodput")
    made = outcome(0, sample(0, "acme/dense"), config.goal)
    metrics = made.candidate.metrics | {
        "goodput_output_throughput_tok_s": 0.0,
        "goodput_completed_requests": 0.0,
    }
    made = type(made)(
        made.status, made.config, made.candidate.model_copy(update={"metrics": metrics, "score": 0.0})
    )
    with Ledger.create(path) as ledger:
        ledger.describe(config=config.model_dump(mode="json"), asked={})
        ledger.add_attempt("agg", 1, "key", made, cached=False)
        ledger.commit()
    return ["runs", "show", str(path)]


def other_file(folder):
    (folder / "notes.txt").write_text("mine")
    made_run(folder / "made.sqlite", 4)
    return ["report", str(folder / "made.sqlite"), "-o", str(folder / "notes.txt")]


def running(folder):
    HELD.append(Ledger.create(folder / "running.sqlite"))
    return ["spica", "--resume", str(folder / "running.sqlite")]


def no_such_trace(folder):
    path = folder / "search.yaml"
    path.write_text(yaml.safe_dump(SEARCH | {"workload": {"trace_path": str(folder / "none.jsonl")}}))
    return ["spica", "--config", str(path), "--no-run", "--dry-run"]


HELD = []
COMMANDS = {
    "did you mean": lambda folder: [*search(folder, gpu_budgett=8), "--dry-run"],
    "leave no memory for KV cache": lambda folder: [
        *search(folder, model_name="meta-llama/Meta-Llama-3.1-70B"),
        "--dry-run",
    ],
    "no such file": no_such_trace,
    "exists already": other_file,
    "another process is writing this run": running,
    "unknown hardware_sku": lambda folder: [*search(folder, hardware_sku="h2000"), "--dry-run"],
    "'NAME' is not bundled, and there is no such folder": lambda folder: [
        *search(folder, model_name="NAME"),
        "--dry-run",
    ],
    "there is no run": lambda folder: ["runs", "show", "nothing"],
    "expected PATH=VALUE": lambda folder: [*search(folder), "--set", "sweep"],
    "no candidate meets the SLA": missed_sla,
    "was made with other versions of the programs": other_versions,
    "has no effect with": lambda folder: ["spica", "--resume", "x", "--seed", "1"],
}
SHOWN_ELSEWHERE = {"no feasible candidate found": "tests/spica/test_spica_cli.py"}


def test_every_documented_message_is_tested():
    assert set(documented()) == set(COMMANDS) | set(SHOWN_ELSEWHERE)
    for message, file in SHOWN_ELSEWHERE.items():
        assert message in (DOCUMENT.parents[1] / file).read_text()


@pytest.mark.parametrize("message", COMMANDS)
def test_the_program_says_it(message, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path / "runs"))
    main(COMMANDS[message](tmp_path))
    captured = capsys.readouterr()
    assert message in captured.out + captured.err
