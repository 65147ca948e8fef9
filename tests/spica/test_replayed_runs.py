"""Recorded candidates replayed with other seeds."""

from __future__ import annotations

import pytest
import yaml

from aisimulate.cli import runs as runs_command
from aisimulate.cli.spica import main

SEARCH = """
search_space:
  model_name: meta-llama/Meta-Llama-3.1-8B
  hardware_sku: h200_sxm
  gpu_budget: 2
  context_length: 4096
  deployment_mode: [agg]
  parallel_configs: [{tp: 1, replicas: 2}]
  agg_max_num_batched_tokens: [8192]
  agg_max_num_seqs: [256]
  router_mode: [kv_router]
  overlap_score_credit: [1.0]
  prefill_load_scale: [1.0]
  router_temperature: [1.0]
  planner_scaling_policy: [disabled]
workload:
  {isl: 512, osl: 16, concurrency: 12, num_request_ratio: 4, shared_prefix_ratio: 0.5, num_prefix_groups: 4}
goal: {target: e2e_latency}
sweep: {max_rounds: 1, candidates_per_round: 1, parallel_evals: 1, max_eval_seconds: null}
"""


def replayed_with_seeds(tmp_path, capsys, **space):
    document = yaml.safe_load(SEARCH)
    document["search_space"] |= space
    path, run = tmp_path / "search.yaml", tmp_path / "run.sqlite"
    path.write_text(yaml.safe_dump(document))
    assert main(["--config", str(path), "--quiet", "--run", str(run)]) == 0
    capsys.readouterr()
    assert runs_command.main(["replay", str(run), "best", "--seeds", "3"]) == 0
    same, _, spread = capsys.readouterr().out.partition("\n\n")
    assert "the same, all " in same
    return spread.splitlines()[1].split(maxsplit=1)[1]


def test_placements_that_are_drawn_spread(tmp_path, capsys):
    low, _, rest = replayed_with_seeds(tmp_path, capsys).partition(" to ")
    high, apart = rest.removesuffix(" apart)").split(" (")
    assert float(low) < float(high)
    assert float(apart.removesuffix("%")) == pytest.approx(
        200 * (float(high) - float(low)) / (float(high) + float(low)), abs=0.1
    )


def test_drafts_that_are_drawn_spread(tmp_path, capsys):
    drafts = {"router_mode": ["round_robin"], "aic_nextn": 2}
    assert " apart)" in replayed_with_seeds(tmp_path, capsys, **drafts)


def test_where_nothing_is_drawn_it_is_said(tmp_path, capsys):
    assert replayed_with_seeds(tmp_path, capsys, router_mode=["round_robin"]) == "nothing is drawn"


def test_a_winner_that_rejects_most_of_the_work_is_told_beside_the_plain_lines(tmp_path, capsys):
    lengths = [50, 500, 500]
    trace = tmp_path / "t.jsonl"
    trace.write_text("".join(f'{{"input_length": {size}, "output_length": 4}}\n' for size in lengths))
    document = yaml.safe_load(SEARCH)
    document["search_space"] |= {"context_length": 100, "router_mode": ["round_robin"]}
    document["workload"] = {"trace_path": str(trace), "trace_format": "lengths", "replay_concurrency": 3}
    path = tmp_path / "search.yaml"
    path.write_text(yaml.safe_dump(document))
    assert main(["--config", str(path), "--quiet", "--no-run", "--format", "lines"]) == 0
    assert "note: the first candidate rejects 66.7% of the requests" in capsys.readouterr().err
