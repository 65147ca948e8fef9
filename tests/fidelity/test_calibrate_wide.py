"""Logs of engines of several GPUs, with known factors: fitted, written, applied.

They are as vLLM writes its clocks, for data-parallel ranks with expert parallelism and for tensor
parallelism, on a GPU of PCIe.
"""

from __future__ import annotations

import json

import pytest

from aisimulate.cli.main import main
from aisimulate.replay.execute import execute

from .made_logs import requests

SHAPES: dict[str, dict[str, int]] = {
    "Qwen/Qwen3-30B-A3B": {"tp": 1, "attention_dp": 2, "moe_tp_size": 1, "moe_ep_size": 2},
    "Qwen/Qwen3-32B": {"tp": 2},
}
FACTORS = {"prefill_scale": 1.2, "decode_scale": 1.4, "scheduling_look_ahead": 1}
SENT_AT_S, ENGINE_CLOCK_S = 1.77e9, 4.0e5


def engine(model: str, **rank: float) -> dict:
    shape = SHAPES[model]
    config = {"model": model, "backend": "vllm", "system": "rtx_pro_6000_server", **shape}
    timing = {"type": "external", "provider": "aic", "config": config}
    settings = {"max_num_seqs": 128, "max_num_batched_tokens": 2048, "timing_model": timing}
    sizes = {"tensor_parallel_size": shape["tp"], "dp_size": shape.get("attention_dp", 1)}
    return {**sizes, "rank": settings | rank}


def payload(model: str, made: list, **spec: object) -> dict:
    topology = {"kind": "aggregated", "workers": {"initial_workers": 1}}
    return {"spec": {"topology": topology, "engine": engine(model), "requests": made, **spec}}


def write_clocks(path, model: str, made: list) -> None:
    report = execute(payload(model, made, engine=engine(model, **FACTORS)))
    stamps = {"queued_ts": "arrival_time_ms", "scheduled_ts": "first_admit_ms"}
    stamps |= {"first_token_ts": "first_token_ms", "last_token_ts": "last_token_ms"}
    rows = []
    for request, record in zip(made, report["per_request"], strict=True):
        assert record["arrival_time_ms"] == request["arrival_time_ms"]
        sizes = {"input_toks": request["input_tokens"], "output_toks": request["output_tokens"]}
        clocks = {name: ENGINE_CLOCK_S + record[key] / 1e3 for name, key in stamps.items()}
        rows.append({"arrival_time": SENT_AT_S + request["arrival_time_ms"] / 1e3, **sizes, **clocks})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("model", list(SHAPES))
def test_factors_of_a_wide_engine_are_found_and_applied(model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = requests(count=100, rate_ms=60.0)
    write_clocks(tmp_path / "log.jsonl", model, made)
    (tmp_path / "engine.json").write_text(json.dumps({"engine": engine(model)}))
    asked = "calibrate log.jsonl --engine engine.json --timing-mode additive -o calibration.yaml"
    assert main([*asked.split(), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = told["calibration"]
    for name in ("prefill_scale", "decode_scale"):
        assert found[name] == pytest.approx(FACTORS[name], rel=0.05)
    assert found["scheduling_look_ahead"] == 1
    held_out = told["errors"]["after"]["held_out"]
    assert max(abs(held_out[name]) for name in ("tpot", "e2e", "throughput")) < 0.02
    assert abs(held_out["ttft"]) < 0.04

    own = execute(payload(model, made, engine=engine(model, **FACTORS)))
    (tmp_path / "payload.json").write_text(json.dumps(payload(model, made, calibration="calibration.yaml")))
    assert main(["simulate", "--payload", "payload.json", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["scheduling_look_ahead"] == 1
    for name in ("mean_tpot_ms", "mean_e2e_latency_ms", "output_throughput_tok_s"):
        assert report[name] == pytest.approx(own[name], rel=0.02)
