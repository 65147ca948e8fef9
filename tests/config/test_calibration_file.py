"""Calibration files: what is written reads back, and what is wrong is said in one line."""

from __future__ import annotations

import json
import math

import pytest
import yaml

from aisimulate.config.calibration import Calibration, StepModel
from aisimulate.config.calibration_file import calibration_text, factors_at, read_calibration
from aisimulate.config.messages import parse_model
from aisimulate.core.errors import InputError

DOCUMENT = {
    "version": 1,
    "key": {
        "backend": "vllm",
        "model": "meta-llama/Llama-3.1-8B",
        "system": "h200_sxm",
        "backend_version": "0.24.0",
        "weights": "bfloat16",
        "kv_cache": "bfloat16",
        "tp": 2,
    },
    "prefill_scale": 1.25,
    "decode_scale": 1.125,
    "ttft_offset_ms": 3.5,
    "timing_mode": "half",
    "points": [
        {"concurrency": 4.0, "step_scale": 1.0, "ttft_ratio": 2.0},
        {"concurrency": 16.0, "step_scale": 1.5, "ttft_ratio": 1.0},
    ],
    "training_error": {"ttft": 0.01, "tpot": -0.002},
    "source": {"file": "log.jsonl", "sha256": "0" * 64, "format": "vllm", "requests": 60},
    "notes": ["decode_scale: no pass held more than 3 requests"],
}


def changed(**fields: object) -> dict[str, object]:
    return {**DOCUMENT, **fields}


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_what_is_written_reads_back(tmp_path, suffix):
    calibration = parse_model(Calibration, DOCUMENT, "x")
    path = tmp_path / f"calibration{suffix}"
    path.write_text(calibration_text(calibration) if suffix == ".yaml" else json.dumps(DOCUMENT))
    assert read_calibration(path) == calibration


def test_text_is_always_the_same_and_leaves_out_what_is_empty():
    plain = parse_model(Calibration, {key: DOCUMENT[key] for key in ("version", "key", "source")}, "x")
    text = calibration_text(plain)
    assert text == calibration_text(plain)
    assert "points" not in text
    assert "null" not in text
    assert text.index("key:") < text.index("prefill_scale: 1.0") < text.index("source:")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"version": 2}, "version: 2 is not 1"),
        ({"prefill_scale": 0}, "prefill_scale: 0 is not >= 0.05"),
        ({"decode_scale": math.inf}, "decode_scale"),
        ({"prefil_scale": 1.0}, "did you mean 'prefill_scale'?"),
        ({"timing_mode": "mean"}, "timing_mode: 'mean' is not one of 'additive', 'fused', 'half'"),
        ({"key": {"backend": "vlm"}}, "key.backend: 'vlm' is not one of"),
        ({"key": {"backend": "vllm", "tp": 0}}, "key.tp: 0 is not > 0"),
        ({"points": [{"step_scale": 1.0}]}, "points[0].concurrency: exactly one of"),
        ({"points": [{"concurrency": 4.0, "rate_rps": 1.0}]}, "exactly one of"),
        ({"points": [{"concurrency": 4.0}, {"concurrency": 4.0}]}, "points: loads must increase"),
        ({"points": [{"concurrency": 4.0}, {"rate_rps": 5.0}]}, "points: concurrency and rate_rps"),
        ({"step_model": {"constant_ms": -1.0}}, "step_model"),
        (
            {"step_model": dict.fromkeys(StepModel.model_fields, 0.0)},
            "step_model.constant_ms: a step of no time at all cannot have been measured",
        ),
        ({"training_error": {"ttft": math.nan}}, "ttft: NaN is not"),
        ({"source": {**DOCUMENT["source"], "sha256": "abc"}}, "source.sha256"),  # type: ignore[dict-item]
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, fields, said):
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(changed(**fields)).replace("Infinity", "1e999"))
    with pytest.raises(InputError) as caught:
        read_calibration(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "calibration.json" in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"could not read calibration .*none\.yaml"):
        read_calibration(tmp_path / "none.yaml")


def test_factors_lie_between_those_of_the_neighbouring_points():
    calibration = parse_model(Calibration, DOCUMENT, "x")
    assert factors_at(calibration, 1.0) == (1.0, 2.0)
    assert factors_at(calibration, 4.0) == (1.0, 2.0)
    assert factors_at(calibration, 16.0) == (1.5, 1.0)
    assert factors_at(calibration, 999.0) == (1.5, 1.0)
    assert factors_at(calibration, 8.0) == pytest.approx((math.sqrt(1.5), math.sqrt(2.0)))
    assert factors_at(parse_model(Calibration, changed(points=[]), "x"), 8.0) == (1.0, 1.0)


def test_an_error_that_is_no_number_is_refused(tmp_path):
    path = tmp_path / "calibration.yaml"
    path.write_text(yaml.safe_dump(changed(training_error={"ttft": math.nan})))
    with pytest.raises(InputError, match=r"training_error\.ttft: NaN is not finite"):
        read_calibration(path)
