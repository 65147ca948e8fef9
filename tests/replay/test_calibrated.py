"""Calibrations in payloads: applied to their engine, told in the report, refused for another one."""

from __future__ import annotations

import copy

import pytest
import yaml

from aisimulate.core.errors import InputError
from aisimulate.replay.execute import execute
from aisimulate.report.calibration import calibration_line
from aisimulate.report.replay_table import replay_text

SOURCE = {"file": "log.jsonl", "sha256": "0" * 64, "format": "vllm", "requests": 60}
CALIBRATION = {
    "version": 1,
    "key": {"backend": "vllm"},
    "prefill_scale": 2.0,
    "decode_scale": 3.0,
    "training_error": {"ttft": 0.0125, "tpot": -0.002},
    "source": SOURCE,
}
FIXED = {"type": "fixed", "prefill_ms": 20.0, "decode_ms": 5.0}
REQUEST = {"id": "a", "arrival_time_ms": 0.0, "input_tokens": 30, "output_tokens": 5}


def payload(calibration=CALIBRATION, **rank):
    topology = {"kind": "aggregated", "workers": {"initial_workers": 1}}
    spec = {"topology": topology, "engine": {"rank": {"timing_model": FIXED, **rank}}, "requests": [REQUEST]}
    return {"spec": {**spec, "calibration": calibration}}


def refusal(*args, **rank):
    with pytest.raises(InputError) as caught:
        execute(payload(*args, **rank))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_both_factors_act_and_the_report_says_so():
    report = execute(payload())
    assert report["mean_ttft_ms"] == 40.0
    assert report["mean_tpot_ms"] == 15.0
    told = report["provenance"]["calibration"]
    assert told["training_error"] == {"ttft": 0.0125, "tpot": -0.002}
    assert (told["prefill_scale"], told["decode_scale"], told["file"]) == (2.0, 3.0, "log.jsonl")
    text = replay_text(report)
    assert "calibrated by log.jsonl, 60 requests: prefill x 2.000, decode x 3.000" in text
    assert "training error: ttft +1.2%, tpot -0.2%" in text


def test_a_file_is_the_same_as_what_is_in_it(tmp_path):
    path = tmp_path / "calibration.yaml"
    path.write_text(yaml.safe_dump(CALIBRATION))
    ours, theirs = execute(payload(str(path))), execute(payload())
    assert ours["provenance"] == theirs["provenance"]
    assert ours["per_request"] == theirs["per_request"]


def test_a_file_that_is_wrong_is_named(tmp_path):
    path = tmp_path / "calibration.yaml"
    path.write_text(yaml.safe_dump({**CALIBRATION, "decode_scale": 0}))
    assert f"calibration '{path}'.decode_scale: 0 is not >= 0.05" in refusal(str(path))
    assert "could not read calibration" in refusal(str(tmp_path / "none.yaml"))


def test_another_engine_is_refused_by_the_field_that_differs():
    other = {**CALIBRATION, "key": {"backend": "vllm", "tp": 4}}
    assert refusal(other) == "spec.calibration: made for tp 4, but spec.engine.rank has 1"


def test_drafts_are_part_of_the_engine():
    """A step model that was found without drafts would give their tokens away."""
    drafts = {"aic_nextn": 2, "aic_nextn_accept_rates": "0.5,0.3"}
    assert refusal(**drafts) == "spec.calibration: made for aic_nextn 0, but spec.engine.rank has 2"
    own = {**CALIBRATION, "key": {"backend": "vllm", "aic_nextn": 2}}
    assert execute(payload(own, **drafts))["provenance"]["calibration"]["decode_scale"] == 3.0


def test_what_only_one_side_tells_is_noted():
    named = {**CALIBRATION, "key": {"backend": "vllm", "model": "m", "system": "s"}}
    note = "spec.calibration: model and system not checked: spec.engine.rank does not tell"
    assert execute(payload(named))["notes"] == [note]


def test_factors_of_the_rank_itself_contradict_it():
    assert "decode_scale: may not be given beside a calibration" in refusal(decode_scale=2.0)


def test_a_timing_mode_that_is_given_must_be_that_of_the_calibration():
    fused = {**CALIBRATION, "timing_mode": "fused"}
    assert execute(payload(fused))["timing_mode"] == "fused"
    assert execute(payload(fused, timing_mode="fused"))["timing_mode"] == "fused"
    assert "timing_mode: 'half' contradicts the calibration ('fused')" in refusal(fused, timing_mode="half")


def test_a_step_model_takes_the_place_of_measured_times_only():
    steps = {"constant_ms": 4.0, "prefill_token_ms": 1.0, "decode_ms": 2.0, "context_token_ms": 0.0}
    own = {**CALIBRATION, "prefill_scale": 1.0, "decode_scale": 1.0, "step_model": steps}
    timeless = payload(own)
    del timeless["spec"]["engine"]["rank"]["timing_model"]
    report = execute(timeless)
    assert (report["mean_ttft_ms"], report["mean_tpot_ms"]) == (34.0, 6.0)
    assert report["provenance"]["timing"] == "linear"
    assert "timing_model: contradicts the calibration, which has a step model" in refusal(own)
    aic = {"model": "meta-llama/Meta-Llama-3.1-8B", "backend": "vllm", "system": "h200_sxm", "tp": 1}
    timed = execute(payload(own, timing_model={"type": "external", "provider": "aic", "config": aic}))
    assert (timed["mean_ttft_ms"], timed["provenance"]["timing"]) == (34.0, "linear")
    assert timed["provenance"]["num_gpu_blocks_source"] == "estimated"


def test_points_need_a_load_of_their_kind():
    by_load = {**CALIBRATION, "points": [{"concurrency": 4.0, "step_scale": 2.0}]}
    assert "its points are by concurrency, but the traffic has no fixed concurrency" in refusal(by_load)
    capped = payload(by_load)
    capped["spec"]["max_in_flight"] = 4
    assert execute(capped)["mean_ttft_ms"] == 80.0
    by_rate = {**CALIBRATION, "points": [{"rate_rps": 4.0}]}
    assert "its points are by rate_rps, but the traffic has no request rate" in refusal(by_rate)


def test_both_pools_of_a_pair_are_calibrated():
    pair = copy.deepcopy(payload({**CALIBRATION, "timing_mode": "half"}))
    pair["spec"]["topology"] = {
        "kind": "disaggregated",
        "prefill": {"initial_workers": 1},
        "decode": {"initial_workers": 1},
    }
    report = execute(pair)
    assert report["mean_ttft_ms"] >= 40.0
    assert {pool: report["provenance"][pool]["calibration"]["file"] for pool in ("prefill", "decode")} == {
        "prefill": "log.jsonl",
        "decode": "log.jsonl",
    }
    assert replay_text(report).count("calibrated by log.jsonl") == 1


def test_clients_see_everything_later_by_the_offset():
    plain, later = execute(payload()), execute(payload({**CALIBRATION, "ttft_offset_ms": 12.5}))
    assert later["mean_ttft_ms"] == plain["mean_ttft_ms"] + 12.5
    assert later["mean_e2e_latency_ms"] == plain["mean_e2e_latency_ms"] + 12.5
    assert later["mean_tpot_ms"] == plain["mean_tpot_ms"]
    assert later["frontend"]["ttft_offset_ms"] == 12.5
    record = later["per_request"][0]
    assert (record["ttft_ms"], record["client_ttft_ms"]) == (40.0, 52.5)


def test_a_ratio_of_the_ttft_moves_all_tokens_of_a_request():
    capped = payload({**CALIBRATION, "points": [{"concurrency": 4.0, "ttft_ratio": 1.5}]})
    capped["spec"]["max_in_flight"] = 4
    report = execute(capped)
    assert (report["mean_ttft_ms"], report["mean_tpot_ms"]) == (60.0, 15.0)
    assert report["frontend"]["ttft_ratio"] == 1.5
    assert report["per_request"][0]["client_e2e_latency_ms"] == 120.0


def test_two_offsets_are_refused():
    both = payload({**CALIBRATION, "ttft_offset_ms": 12.5})
    both["spec"]["frontend"] = {"ttft_offset_ms": 1.0}
    with pytest.raises(InputError, match=r"spec\.frontend\.ttft_offset_ms: 1 beside the calibration's 12\.5"):
        execute(both)
    both["spec"]["frontend"] = {"stream_interval": 1}
    assert execute(both)["mean_ttft_ms"] == 52.5


def test_the_line_says_all_that_was_changed_and_how_far_to_trust_it():
    by_load = {
        **CALIBRATION,
        "prefill_scale": 1.0,
        "decode_scale": 1.0,
        "ttft_offset_ms": 4.5,
        "points": [{"concurrency": 4.0, "step_scale": 2.0, "ttft_ratio": 1.5}],
        "source": {**SOURCE, "file": "a\nb\x1b[31m"},
        "notes": ["the fit is poor"],
    }
    capped = payload(by_load)
    capped["spec"]["max_in_flight"] = 4
    report = execute(capped)
    told = report["provenance"]["calibration"]
    assert (told["ttft_offset_ms"], told["ttft_ratio"]) == (4.5, 1.5)
    line = next(line for line in replay_text(report).splitlines() if line.startswith("calibrated by"))
    assert line.startswith(
        r"calibrated by a\nb\x1b[31m, 60 requests: prefill x 2.000, decode x 2.000, TTFT x 1.500, "
        "all 4.5 ms later; training error: "
    )
    assert line.endswith("; 1 doubt in its notes")


def test_before_a_load_is_known_the_ranges_of_the_factors_are_told():
    points = [
        {"concurrency": load, "step_scale": scale, "ttft_ratio": 1.0}
        for load, scale in ((0.01, 1.0), (4.0, 1.6), (16.0, 1.2), (9999.0, 1.0))
    ]
    line = calibration_line({**CALIBRATION, "prefill_scale": 1.0, "decode_scale": 1.0, "points": points})
    assert "60 requests: by concurrency pass times x 1.200 to x 1.600, TTFT x 1.000; training" in line
    both = calibration_line({**CALIBRATION, "points": points[:1]})
    assert "prefill x 2.000, decode x 3.000, by concurrency pass times x 1.000, TTFT" in both
