"""Logs made by the simulator itself, so that the truth is known."""

from __future__ import annotations

import json
import random

from aisimulate.fidelity.calibrate.calibration import Options, calibrate
from aisimulate.fidelity.calibrate.replayer import Candidate
from aisimulate.fidelity.calibrate.request_log import read_log
from aisimulate.fidelity.calibrate.settings import settings_of
from aisimulate.replay.execute import execute

STEPS = {
    "type": "linear",
    "constant_ms": 6.0,
    "prefill_token_ms": 0.02,
    "decode_ms": 0.1,
    "context_token_ms": 0.0001,
}
RANK = {
    "num_gpu_blocks": 4000,
    "block_size": 16,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 512,
    "timing_model": STEPS,
}


def requests(count=80, seed=3, rate_ms=40.0):
    rng = random.Random(seed)
    now, made = 0.0, []
    for number in range(count):
        now += rng.expovariate(1.0 / rate_ms)
        lengths = {"input_tokens": rng.randint(50, 900), "output_tokens": rng.randint(20, 120)}
        made.append({"id": f"r{number:03d}", "arrival_time_ms": now, **lengths})
    return made


def spec(**rank):
    topology = {"kind": "aggregated", "workers": {"initial_workers": 1}}
    return {"topology": topology, "engine": {"rank": {**RANK, **rank}}}


def write_records(path, made=None, **rank):
    """Write the records of a replay as `simulate --per-request` does."""
    report = execute({"spec": {**spec(**rank), "requests": made or requests()}})
    path.write_text("".join(json.dumps(record) + "\n" for record in report["per_request"]))
    return path


def calibrated(path, options=None, **rank):
    return calibrate(read_log(path), settings_of(spec(**rank)), options or Options(fit_requests=40))


__all__ = ["RANK", "STEPS", "Candidate", "calibrated", "requests", "spec", "write_records"]
