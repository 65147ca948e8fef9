"""What each field of a calibration does in a payload, on which small one."""

from __future__ import annotations

from aisimulate.config.calibration import (
    Calibration,
    CalibrationError,
    CalibrationKey,
    CalibrationPoint,
    CalibrationSource,
    StepModel,
)

from .field_payloads import AIC, CAPPED, CONSTANT, CROWD, MOE_2
from .field_walk import Acts, FieldTable, Inert, Refused, Why, changed

TABLE = FieldTable()
PATH = "spec.calibration"

_SOURCE = {"file": "log.jsonl", "sha256": "0" * 64, "format": "vllm", "requests": 60}
CALIBRATION = {"version": 1, "key": {"backend": "vllm"}, "source": _SOURCE}
CALIBRATED = changed(CROWD, {PATH: CALIBRATION})
_ENGINE = {
    "backend": "vllm",
    "model": "meta-llama/Meta-Llama-3.1-8B",
    "system": "h200_sxm",
    "backend_version": "0.24.0",
    "weights": "bfloat16",
    "kv_cache": "bfloat16",
}
CALIBRATED_AIC = changed(AIC, {PATH: {**CALIBRATION, "key": _ENGINE}})
_EXPERTS = {"model": "Qwen/Qwen3-30B-A3B", "experts": "bfloat16", "tp": 2, "moe_tp": 2, "moe_ep": 1}
CALIBRATED_MOE = changed(MOE_2, {PATH: {**CALIBRATION, "key": _ENGINE | _EXPERTS}})
# No pass times of its own.
_TIMELESS = {
    "num_gpu_blocks": 64,
    "block_size": 4,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 64,
}
_STEPS = {"constant_ms": 5.0, "prefill_token_ms": 0.5, "decode_ms": 0.25, "context_token_ms": 0.125}
STEPS = changed(CALIBRATED, {"spec.engine.rank": _TIMELESS, f"{PATH}.step_model": _STEPS})
_POINTS = [{"concurrency": 2.0, "step_scale": 1.0}, {"concurrency": 8.0, "step_scale": 2.0}]
POINTS = changed(CAPPED, {"traffic.concurrency": 4, PATH: {**CALIBRATION, "points": _POINTS}})
_RATES = [{"rate_rps": 5.0, "step_scale": 1.0}, {"rate_rps": 500.0, "step_scale": 2.0}]
RATES = changed(CONSTANT, {PATH: {**CALIBRATION, "points": _RATES}})


def acts(metric, base=CALIBRATED, **fields) -> Acts:
    return Acts(base, {f"{PATH}.{name}": value for name, value in fields.items()}, metric)


def other(base, path, text, **fields) -> Refused:
    """A key that is not that of the engine."""
    changes = {f"{PATH}.key.{name}": value for name, value in fields.items()}
    return Refused(base, changes, f"spec.calibration: made for {text}, but {path} has ", Why.TIED)


def aic_key(text, base=CALIBRATED_AIC, **fields) -> Refused:
    return other(base, "spec.engine.rank", text, **fields)


TABLE.add(
    Calibration,
    version=Refused(
        CALIBRATED, {f"{PATH}.version": 2}, "version: 2 is not 1 (the only version)", Why.ONE_VALUE
    ),
    key=aic_key("tp 2", base=CALIBRATED, tp=2),
    prefill_scale=acts("mean_ttft_ms", prefill_scale=1.5),
    decode_scale=acts("mean_itl_ms", decode_scale=1.5),
    ttft_offset_ms=acts("mean_ttft_ms", ttft_offset_ms=7.5),
    scheduling_look_ahead=(
        acts("scheduling_look_ahead", scheduling_look_ahead=1),
        Inert(
            changed(CALIBRATED, {"spec.engine.rank.scheduling_look_ahead": 0}),
            {f"{PATH}.scheduling_look_ahead": 1},
            "spec.calibration: fitted with scheduling_look_ahead 1, but spec.engine.rank has 0",
            Why.TIED,
        ),
    ),
    timing_mode=acts("duration_ms", timing_mode="fused"),
    step_model=Acts(STEPS, {f"{PATH}.step_model": {**_STEPS, "constant_ms": 6.0}}, "duration_ms"),
    points=acts("duration_ms", POINTS, points=_POINTS[:1]),
    training_error=acts("provenance", training_error={"ttft": 0.01}),
    held_out_error=acts("provenance", held_out_error={"ttft": 0.01}),
    source=acts("provenance", source={**_SOURCE, "file": "other.jsonl"}),
    notes=acts("provenance", notes=["only 3 requests"]),
)
TABLE.add(
    CalibrationKey,
    backend=aic_key("backend 'sglang'", backend="sglang"),
    model=aic_key("model 'Qwen/Qwen3-8B'", model="Qwen/Qwen3-8B"),
    system=aic_key("system 'h100_sxm'", system="h100_sxm"),
    backend_version=aic_key("backend_version '0.1.0'", backend_version="0.1.0"),
    weights=aic_key("weights 'fp8'", weights="fp8"),
    experts=aic_key("experts 'fp8'", base=CALIBRATED_MOE, experts="fp8"),
    kv_cache=aic_key("kv_cache 'fp8'", kv_cache="fp8"),
    tp=aic_key("tp 2", tp=2),
    pp=aic_key("pp 2", pp=2),
    attention_dp=aic_key("attention_dp 2", attention_dp=2),
    moe_tp=aic_key("moe_tp 1", base=CALIBRATED_MOE, moe_tp=1),
    moe_ep=aic_key("moe_ep 2", base=CALIBRATED_MOE, moe_ep=2),
    aic_nextn=aic_key("aic_nextn 2", aic_nextn=2),
)
TABLE.add(
    StepModel,
    **{
        name: Acts(STEPS, {f"{PATH}.step_model.{name}": 2.0}, "duration_ms")
        for name in (*_STEPS, "mixed_decode_ms")
    },
)
TABLE.add(
    CalibrationPoint,
    concurrency=Acts(POINTS, {f"{PATH}.points.1.concurrency": 64.0}, "duration_ms"),
    rate_rps=Acts(RATES, {f"{PATH}.points.1.rate_rps": 50.0}, "mean_ttft_ms"),
    step_scale=Acts(POINTS, {f"{PATH}.points.1.step_scale": 3.0}, "duration_ms"),
    ttft_ratio=Acts(POINTS, {f"{PATH}.points.1.ttft_ratio": 3.0}, "mean_ttft_ms"),
)
TABLE.add(
    CalibrationError,
    **{
        name: Acts(CALIBRATED, {f"{PATH}.training_error": {name: 0.01}}, "provenance")
        for name in CalibrationError.model_fields
    },
)
TABLE.add(
    CalibrationSource,
    **{
        name: Acts(CALIBRATED, {f"{PATH}.source": {**_SOURCE, name: value}}, "provenance")
        for name, value in {
            "file": "other.jsonl",
            "sha256": "1" * 64,
            "format": "aiperf",
            "requests": 59,
            "rows": 3,
            "engine_version": "0.19.0",
        }.items()
    },
)
