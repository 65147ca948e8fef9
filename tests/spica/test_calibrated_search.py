"""A calibration in a search: read once, told in notes and evidence, refused for other engines."""

from __future__ import annotations

import pytest
import yaml
from spica_walk import PINNED, changed, look

from aisimulate.report.evidence import evidence_line
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.screen.goals import no_screen_reason

CALIBRATION = {
    "version": 1,
    "key": {"backend": "vllm", "model": "meta-llama/Meta-Llama-3.1-8B", "system": "h200_sxm", "tp": 1},
    "prefill_scale": 1.5,
    "decode_scale": 2.0,
    "training_error": {"tpot": 0.01},
    "source": {"file": "log.jsonl", "sha256": "0" * 64, "format": "vllm", "requests": 60},
}


def config_with(calibration, **changes):
    return changed(PINNED, {"calibration": calibration, **changes})


def test_a_file_is_read_with_the_config_and_kept_in_it(tmp_path):
    path = tmp_path / "calibration.yaml"
    path.write_text(yaml.safe_dump(CALIBRATION))
    config = SmartSearchConfig.model_validate(config_with(str(path)))
    path.unlink()
    assert config.calibration["decode_scale"] == 2.0
    assert SmartSearchConfig.model_validate(config.model_dump(mode="json")) == config


def test_a_file_that_is_wrong_is_named(tmp_path):
    path = tmp_path / "calibration.yaml"
    path.write_text(yaml.safe_dump({**CALIBRATION, "decode_scale": -1.0}))
    with pytest.raises(ValueError, match=r"calibration\.yaml'\.decode_scale: -1\.0 is not >= 0\.05"):
        SmartSearchConfig.model_validate(config_with(str(path)))


def test_replays_are_calibrated_and_the_user_is_told(monkeypatch):
    plain, found = look(PINNED, monkeypatch), look(config_with(CALIBRATION), monkeypatch)
    ratio = found.metrics[0]["mean_tpot_ms"] / plain.metrics[0]["mean_tpot_ms"]
    assert 1.45 < ratio < 2.05  # most tokens come in passes that prefill, too
    assert found.payloads[-1]["spec"]["calibration"]["source"]["file"] == "log.jsonl"
    assert any("calibration: candidates other than vllm with tp 1" in note for note in found.notes)
    config = found.result.plan.config
    line = evidence_line(config, {}, {}, None)
    assert "calibrated by log.jsonl, 60 requests: prefill x 1.500, decode x 2.000" in line
    fused = SmartSearchConfig.model_validate(config_with({**CALIBRATION, "timing_mode": "fused"}))
    assert "fused pass times" in evidence_line(fused, {}, {}, None)
    assert no_screen_reason(config) == "calibrated pass times cannot be screened"


def test_a_candidate_of_another_shape_fails_with_the_field_that_differs(monkeypatch):
    found = look(config_with(CALIBRATION, **{"search_space.parallel_configs": [{"tp": 2}]}), monkeypatch)
    assert found.metrics == []
    [(status, reason)] = set(found.statuses)
    assert status == "failed"
    assert "spec.calibration: made for tp 1, but spec.engine.rank has 2" in reason


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ({"backend": "sglang"}, "made for backend 'sglang', but search_space.backend is vllm"),
        ({"backend": "vllm", "model": "other"}, "made for model 'other', but search_space.model_name is"),
        ({"backend": "vllm", "system": "other"}, "made for system 'other', but search_space.hardware_sku"),
    ],
)
def test_an_engine_that_is_not_searched_is_refused(monkeypatch, key, said):
    with pytest.raises(ValueError) as caught:
        look(config_with({**CALIBRATION, "key": key}), monkeypatch)
    assert said in str(caught.value)
