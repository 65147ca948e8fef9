"""A calibration in a search: read once, told in notes and evidence, refused for other engines."""

from __future__ import annotations

import pytest
import yaml
from spica_walk import PINNED, changed, look

from aisimulate.core.errors import InputError
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


def test_shapes_that_it_is_not_for_cost_no_replay(monkeypatch):
    free = {"search_space.parallel_configs": [], "search_space.gpu_budget": 2}
    found = look(config_with(CALIBRATION, **free), monkeypatch)
    assert found.statuses
    assert {status for status, _ in found.statuses} == {"feasible"}
    assert {outcome.candidate.config["tp"] for outcome in found.result.outcomes} == {1}
    assert "calibration: shapes TP2 dropped: it is for tp 1, pp 1, attention_dp 1, aic_nextn 0" in found.notes
    other = {**CALIBRATION, "key": {**CALIBRATION["key"], "tp": 16}}
    with pytest.raises(InputError, match=r"made for tp 16, .* but shapes searched are TP1, TP2"):
        look(config_with(other, **free), monkeypatch)


def test_passes_are_planned_as_early_as_it_was_fitted_with(monkeypatch):
    found = look(config_with({**CALIBRATION, "scheduling_look_ahead": 1}), monkeypatch)
    assert "calibration: passes are planned one ahead, as it was fitted" in found.notes
    assert {outcome.candidate.config["scheduling_look_ahead"] for outcome in found.result.outcomes} == {1}


def test_what_is_not_checked_is_told(monkeypatch):
    ahead = {**CALIBRATION, "scheduling_look_ahead": 1}
    notes = look(config_with(ahead, **{"search_space.scheduling_look_ahead": 0}), monkeypatch).notes
    assert "calibration: backend_version not checked: its key does not tell" in notes
    fitted = "calibration: fitted with scheduling_look_ahead 1, but search_space.scheduling_look_ahead is 0"
    assert fitted in notes
    key = {**CALIBRATION["key"], "backend_version": "0.24.0"}
    same = {**CALIBRATION, "scheduling_look_ahead": 0, "key": key}
    assert not [
        note for note in look(config_with(same), monkeypatch).notes if "checked" in note or "fitted" in note
    ]
