"""The report of recorded outcomes equals the recorded report (spec 02 sections 8 and 11)."""

from __future__ import annotations

import json
import math

import pytest

from aisimulate.replay.report import build_report

from .report_cases import CASES, INVENTORY, case_outcome

NEWER = {"committed_prefill_tokens", "kv_eviction_policy", "power_w", "power_coverage"}
WALL = {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}
GOODPUT = {key for key in INVENTORY["summary_keys"] if key.startswith("goodput_")}
OURS = {"rejected_requests", "unfinished_requests", "rejection_reasons", "timing_mode"}
# The recorded values of these are sketch estimates, off by up to 0.2 %.
SKETCHED = {
    f"{statistic}_{metric}"
    for statistic in ("median", "p75", "p90", "p95", "p99")
    for metric in ("itl_ms", "output_token_throughput_per_user")
}


def seed_era_keys():
    agentic = ("agentic", "trajector", "weka")
    return {
        key
        for key in INVENTORY["summary_keys"]
        if not any(word in key for word in agentic) and key not in NEWER
    }


def equal(ours, theirs, rel=1e-9):
    if isinstance(theirs, float):
        return isinstance(ours, float) and math.isclose(ours, theirs, rel_tol=rel, abs_tol=1e-6)
    return type(ours) is type(theirs) and ours == theirs


@pytest.mark.parametrize("name", CASES)
def test_summary(name):
    report = build_report(case_outcome(name), record_per_request=False)
    recorded = {key: value for key, value in CASES[name]["summary"].items() if key not in NEWER}
    assert set(report) == set(recorded) | WALL | OURS
    wrong = {
        key: (report[key], value)
        for key, value in recorded.items()
        if not equal(report[key], value, 2e-3 if key in SKETCHED else 1e-9)
    }
    assert not wrong


@pytest.mark.parametrize("name", CASES)
def test_records(name):
    report = build_report(case_outcome(name), record_per_request=True)
    ours, theirs = report.get("per_request", []), CASES[name]["per_request"]
    assert len(ours) == len(theirs)
    for ordinal, (mine, recorded) in enumerate(zip(ours, theirs, strict=True)):
        assert mine.pop("uuid") == str(ordinal + 1)
        assert mine.pop("reason", None) == ("too long" if mine["terminal_status"] == "rejected" else None)
        # Same keys in the same order, but for the identity that we give.
        assert list(mine) == list(recorded)
        assert mine["routing_history"] == recorded["routing_history"]
        assert mine["admission_history"] == [
            {**admission, "at_ms": pytest.approx(admission["at_ms"], abs=1e-6)}
            for admission in recorded["admission_history"]
        ]
        wrong = {
            key: (mine[key], value)
            for key, value in recorded.items()
            if not isinstance(value, list) and not equal(mine[key], value)
        }
        assert not wrong


@pytest.mark.parametrize("name", CASES)
def test_keys_are_those_of_the_inventory(name):
    report = build_report(case_outcome(name), record_per_request=False)
    expected = seed_era_keys() | OURS
    assert set(report) == (expected if CASES[name]["sla"] else expected - GOODPUT)


@pytest.mark.parametrize("name", CASES)
def test_report_is_plain_json_and_repeatable(name):
    first, second = (
        json.dumps(build_report(case_outcome(name), record_per_request=True), allow_nan=False)
        for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("name", CASES)
def test_counts_add_up(name):
    report = build_report(case_outcome(name), record_per_request=True)
    ended = report["completed_requests"] + report["rejected_requests"]
    assert ended + report["unfinished_requests"] == report["num_requests"]
    assert len(report.get("per_request", [])) == ended
    assert sum(report["rejection_reasons"].values()) == report["rejected_requests"]
    assert report["processed_tokens"] == report["total_input_tokens"] + report["total_output_tokens"]


@pytest.mark.parametrize("name", CASES)
def test_pooled_gaps_sum_to_the_decode_time_of_the_requests(name):
    report = build_report(case_outcome(name), record_per_request=True)
    spans = [
        (record["itl_ms"] * gaps, gaps)
        for record in report.get("per_request", [])
        if (gaps := record["output_length"] - 1) > 0
    ]
    count = sum(gaps for _, gaps in spans)
    total_ms = sum(span for span, _ in spans)
    assert report["mean_itl_ms"] == pytest.approx(total_ms / count if count else 0.0)
