"""Calibrated on the first 60 requests of real runs, replays meet bounds (spec 07 G2, G3) on the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisimulate.fidelity.calibrate.calibration import Options, calibrate
from aisimulate.fidelity.calibrate.prompts import with_prompts
from aisimulate.fidelity.calibrate.request_log import read_log
from aisimulate.fidelity.calibrate.settings import settings_of

DATA = Path(__file__).parents[1] / "data" / "fidelity"
PROMPTS = DATA / "sharegpt-300.blocks.jsonl"
RANK = {"backend": "vllm", "block_size": 16, "max_num_batched_tokens": 2048}
AIC = {
    "model": "meta-llama/Meta-Llama-3.1-8B",
    "backend": "vllm",
    "system": "rtx_pro_6000_server",
    "tp": 1,
}


def log_of(name):
    log = read_log(DATA / f"{name}.requests.jsonl")
    return with_prompts(log, PROMPTS, 16)


@pytest.mark.parametrize("look_ahead", [0, 1])
def test_two_factors_on_measured_tables(look_ahead):
    timing = {"type": "external", "provider": "aic", "config": AIC}
    rank = {**RANK, "max_num_seqs": 128, "timing_model": timing, "scheduling_look_ahead": look_ahead}
    outcome = calibrate(
        log_of("llama-8b-rtx-pro-6000"), settings_of({"engine": {"rank": rank}}), Options(evaluations=20)
    )
    before, after = outcome.before[1], outcome.after[1]
    assert outcome.held_out == 240
    assert abs(before.ttft) > 0.1
    assert abs(after.ttft) <= 0.025
    assert abs(after.tpot) <= 0.015
    assert abs(after.e2e) <= 0.02
    assert abs(after.throughput) <= 0.03
    assert outcome.calibration.notes == ()


def test_a_step_model_without_tables_where_requests_are_preempted():
    rank = {**RANK, "max_num_seqs": 256, "num_gpu_blocks": 2588}
    settings = settings_of({"engine": {"rank": rank}}, table_free=True)
    options = Options(table_free=True, evaluations=20, model="llama", system="rtx_4090")
    outcome = calibrate(log_of("llama-8b-rtx-4090"), settings, options)
    after = outcome.after[1]
    assert abs(after.ttft) <= 0.04
    assert abs(after.tpot) <= 0.02
    assert abs(after.e2e) <= 0.02
    assert abs(after.throughput) <= 0.03
    assert outcome.before is None
    assert outcome.calibration.step_model is not None
    assert outcome.calibration.key.system == "rtx_4090"
