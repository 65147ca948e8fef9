"""Rules of the report on small outcomes written by hand (spec 02 section 8)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from aisimulate.engine.sequence import COMPLETED
from aisimulate.replay.outcome import Sla
from aisimulate.replay.report import build_report

from .report_builders import FormulaTimer, gap_log, outcome, rejected, sequence


def report_of(*sequences, logs=(), end=100.0, **fleet):
    return build_report(outcome(sequences, *logs, end=end, **fleet), record_per_request=False)


def nine(report, metric):
    names = ("mean", "min", "max", "median", "p75", "p90", "p95", "p99", "std")
    return [report[f"{name}_{metric}"] for name in names]


def test_one_request_of_three_tokens():
    log = gap_log(runs=[(1, 9, 2, 1)])
    report = report_of(sequence(osl=3, tokens=(10.0, 15.0, 20.0)), logs=[log], end=20.0)
    assert report["duration_ms"] == 20.0
    assert report["output_throughput_tok_s"] == 150.0
    assert report["total_throughput_tok_s"] == 550.0
    assert report["request_throughput_rps"] == 50.0
    assert report["decode_worker_seconds"] == 0.02
    assert nine(report, "itl_ms") == [5.0] * 8 + [0.0]
    assert nine(report, "output_token_throughput_per_user") == [200.0] * 8 + [0.0]
    assert nine(report, "e2e_latency_ms") == [20.0] * 8 + [0.0]
    assert report["timing_mode"] == "additive"


def test_one_token_gives_ttft_and_e2e_only():
    report = report_of(sequence(osl=1, tokens=(10.0,)), end=10.0)
    assert nine(report, "ttft_ms") == nine(report, "e2e_latency_ms") == [10.0] * 8 + [0.0]
    for metric in ("ttst_ms", "tpot_ms", "itl_ms", "output_token_throughput_per_user"):
        assert nine(report, metric) == [0.0] * 9
    samples = [report[f"num_{name}_samples"] for name in ("ttft", "tpot", "e2e_latency")]
    assert samples == [1, 0, 1]


def test_no_output_counts_but_has_no_latency():
    report = report_of(sequence(osl=0, end=10.0), end=10.0)
    assert (report["completed_requests"], report["total_input_tokens"], report["duration_ms"]) == (1, 8, 10.0)
    assert report["num_ttft_samples"] == report["num_e2e_latency_samples"] == 0
    assert report["mean_ttft_ms"] == report["mean_e2e_latency_ms"] == 0.0


def test_ttft_statistics_of_seven_requests():
    ttfts = [55.0, 10.0, 100.0, 20.0, 80.0, 35.0, 65.0]
    report = report_of(*(sequence(i, tokens=(ttft,)) for i, ttft in enumerate(ttfts)))
    mean, std = 365 / 7, 30.1018678
    assert nine(report, "ttft_ms")[1:-1] == [10.0, 100.0, 55.0, 80.0, 80.0, 100.0, 100.0]
    assert report["mean_ttft_ms"] == pytest.approx(mean, rel=1e-15)
    assert report["std_ttft_ms"] == pytest.approx(std, rel=1e-8)


def test_nothing_arrived():
    report = build_report(outcome([], end=0.0), record_per_request=True)
    assert "per_request" not in report
    assert {value for value in report.values() if isinstance(value, float)} == {0.0}
    json.dumps(report, allow_nan=False)


def test_rejected_and_unfinished_requests_are_counted_and_left_out():
    late = sequence(3, isl=1000, status=None, tokens=(1.0, 2.0))
    report = report_of(
        sequence(0, tokens=(10.0,)),
        rejected(1, isl=500, end=90.0, reason="b"),
        rejected(2, reason="a"),
        late,
        rejected(4, reason="b"),
    )
    counts = {key: value for key, value in report.items() if key.endswith("_requests")}
    assert counts == {
        "num_requests": 5,
        "completed_requests": 1,
        "rejected_requests": 3,
        "unfinished_requests": 1,
    }
    assert list(report["rejection_reasons"].items()) == [("a", 1), ("b", 2)]
    assert (report["total_input_tokens"], report["duration_ms"], report["num_ttft_samples"]) == (8, 10.0, 1)


def test_duration_is_measured_from_the_start_of_the_replay():
    report = report_of(sequence(arrival=5000.0, osl=4, tokens=(5010.0, 5015.0, 5025.0)), end=5025.0)
    assert report["duration_ms"] == 5025.0
    assert report["output_throughput_tok_s"] == 4 / 5.025
    assert report["mean_ttft_ms"] == 10.0


def test_latencies_are_differences_on_the_clock_and_arrivals_are_echoed():
    authored = 1.0000004
    late = sequence(arrival=authored, admissions=((1.0, 0),), tokens=(11.0,))
    report = build_report(outcome([late], end=11.0), record_per_request=True)
    assert report["per_request"][0]["arrival_time_ms"] == authored
    assert report["mean_ttft_ms"] == report["per_request"][0]["ttft_ms"] == 10.0


def test_rates_stay_finite_when_no_time_passes():
    report = report_of(sequence(osl=0, end=0.0, isl=3), end=0.0)
    assert report["duration_ms"] == 0.0
    assert report["input_throughput_tok_s"] == pytest.approx(3e9)


def test_fleet_time():
    report = report_of(end=3_600_000.0, workers=3, gpus_per_worker=4)
    assert report["decode_worker_seconds"] == 10_800.0
    assert report["gpu_hours"] == 12.0
    assert (report["decode_gpus_per_worker"], report["prefill_gpus_per_worker"]) == (4, 0)
    assert report["prefill_worker_seconds"] == 0.0


def test_rates_over_real_time():
    report = report_of(sequence(isl=7, osl=3, tokens=(1.0, 2.0, 3.0)), wall_ns=2_000_000_000)
    assert report["wall_time_ms"] == 2000.0
    assert (report["processed_tokens_per_s"], report["processed_output_tokens_per_s"]) == (5.0, 1.5)


def test_best_and_first_admission_reuse():
    preempted = sequence(0, isl=8, admissions=((0.0, 4), (9.0, 12), (20.0, 8)), tokens=(30.0,))
    fresh = sequence(1, isl=12, admissions=((0.0, 1),), tokens=(30.0,))
    report = report_of(preempted, fresh)
    assert report["prefix_cache_reused_ratio"] == 13 / 20
    assert report["first_admission_prefix_cache_reused_ratio"] == 5 / 20


def test_provenance_and_notes_are_there_when_known():
    report = report_of(provenance={"timing": "fixed"}, notes=["one row was too long"])
    assert (report["provenance"], report["notes"]) == ({"timing": "fixed"}, ["one row was too long"])
    assert not {"provenance", "notes"} & set(report_of())


# Goodput ----------------------------------------------------------------------------------------------------

SLOW_START = sequence(0, osl=3, tokens=(20.0, 25.0, 30.0))  # ttft 20, mean gap 5, e2e 30
SLOW_DECODE = sequence(1, osl=3, tokens=(10.0, 25.0, 30.0))  # ttft 10, mean gap 10, e2e 30
ONE_TOKEN = sequence(2, osl=1, tokens=(10.0,))
NO_TOKEN = sequence(3, osl=0, end=10.0)


def goodput(sla, *sequences):
    report = report_of(*(sequences or (SLOW_START, SLOW_DECODE, ONE_TOKEN, NO_TOKEN)), end=30.0, sla=sla)
    assert report["goodput_request_throughput_rps"] == report["goodput_completed_requests"] / 0.03
    tokens = report["goodput_output_throughput_tok_s"] * 0.03
    assert tokens == pytest.approx(round(tokens))
    return report["goodput_completed_requests"], round(tokens)


@pytest.mark.parametrize(
    ("sla", "good", "tokens"),
    [
        (Sla(ttft_ms=20.0), 3, 7),  # bounds are inclusive; no token, no ttft
        (Sla(ttft_ms=19.999999), 2, 4),
        (Sla(ttft_ms=10.0), 2, 4),
        (Sla(ttft_ms=9.0), 0, 0),
        (Sla(itl_ms=5.0), 2, 4),  # one token: no gap to bound
        (Sla(itl_ms=10.0), 3, 7),
        (Sla(itl_ms=4.999999), 1, 1),
        (Sla(ttft_ms=12.0, itl_ms=6.0), 1, 1),
        (Sla(e2e_ms=30.0), 4, 7),  # a request for nothing meets only this one, and adds no tokens
        (Sla(e2e_ms=29.0), 2, 1),
        (Sla(e2e_ms=9.0), 0, 0),
    ],
)
def test_goodput(sla, good, tokens):
    assert goodput(sla) == (good, tokens)


def test_goodput_leaves_out_requests_that_do_not_count():
    unfinished = sequence(4, osl=3, status=None, tokens=(1.0, 2.0))
    assert goodput(Sla(e2e_ms=1000.0), SLOW_START, rejected(5), unfinished) == (1, 3)


def test_empty_output_is_measured_from_its_arrival():
    assert goodput(Sla(e2e_ms=5.0), sequence(arrival=25.0, osl=0, end=30.0)) == (1, 0)
    assert goodput(Sla(e2e_ms=4.0), sequence(arrival=25.0, osl=0, end=30.0)) == (0, 0)


def test_no_goodput_without_sla():
    assert not [key for key in report_of(SLOW_START) if key.startswith("goodput")]


# Gaps and records -------------------------------------------------------------------------------------------


def test_gaps_of_all_workers_and_timers_are_pooled():
    logs = [
        gap_log(runs=[(2, 10, 3, 2)], timer=FormulaTimer(lambda batch, context: context * 1_000_000)),
        gap_log(passes=[(30.0, 4)], timer=FormulaTimer(lambda batch, context: 1)),
    ]
    report = report_of(sequence(osl=2, tokens=(1.0, 2.0)), logs=logs)
    assert report["mean_itl_ms"] == (2 * (10 + 12 + 14) + 4 * 30) / 10
    assert (report["min_itl_ms"], report["median_itl_ms"], report["max_itl_ms"]) == (10.0, 14.0, 30.0)


def records(*sequences, **fleet):
    return build_report(outcome(sequences, end=10.0, **fleet), record_per_request=True)["per_request"]


def test_records_only_when_asked_for_and_present():
    assert "per_request" not in report_of(sequence(tokens=(1.0,)))
    unfinished = outcome([sequence(status=None)], end=1.0)
    assert "per_request" not in build_report(unfinished, record_per_request=True)


def test_records_are_ordered_by_request_id_then_arrival_then_dispatch():
    made = [
        sequence(0, arrival=3.0, request_id="b", tokens=(9.0,)),
        sequence(1, arrival=2.0, tokens=(9.0,)),
        sequence(2, arrival=1.0, request_id="a", tokens=(9.0,)),
        sequence(3, arrival=2.0, tokens=(9.0,)),
        sequence(4, arrival=0.0, tokens=(9.0,)),
        rejected(5, arrival=0.0, request_id="a"),
        sequence(6, status=None),
    ]
    assert [record["uuid"] for record in records(*made)] == ["5", "2", "4", "6", "3", "1"]


def test_authored_identity_comes_back():
    made = sequence(
        tokens=(1.0,), request_id="r", session_id="s", turn_index=2, metadata={"caller_tag": "binding"}
    )
    (record,) = records(made)
    assert list(record)[:5] == ["request_id", "session_id", "turn_index", "metadata", "uuid"]
    assert (record["request_id"], record["session_id"], record["turn_index"]) == ("r", "s", 2)
    assert record["metadata"] == {"caller_tag": "binding"}


@pytest.mark.parametrize(("metadata", "present"), [(None, False), ({}, True), (0, True)])
def test_metadata_is_left_out_only_when_there_is_none(metadata, present):
    (record,) = records(sequence(tokens=(1.0,), metadata=metadata))
    assert ("metadata" in record) is present
    assert "request_id" not in record


def test_scheduler_index_counts_ranks():
    (record,) = records(sequence(tokens=(1.0,), worker=3, rank=1), dp_size=2)
    (placement,) = record["routing_history"]
    assert record["decode_worker_idx"] == placement["scheduler_id"] == 7
    assert (placement["logical_worker_id"], placement["dp_rank"]) == (3, 1)


def test_rejected_record_names_the_reason():
    (record,) = records(rejected(end=7.0, reason="too long", isl=99, osl=4))
    assert (record["terminal_status"], record["reason"], record["terminal_time_ms"]) == (
        "rejected",
        "too long",
        7.0,
    )
    assert (record["input_length"], record["requested_output_length"], record["output_length"]) == (99, 4, 0)
    assert record["first_admit_ms"] is record["ttft_ms"] is record["e2e_latency_ms"] is None
    assert record["admission_history"] == []
    assert record["admission_count"] == record["readmission_count"] == 0


def test_truncated_output_keeps_the_requested_length():
    (record,) = records(sequence(osl=20, emitted=2, tokens=(5.0, 10.0)))
    assert (record["requested_output_length"], record["output_length"], record["itl_ms"]) == (20, 2, 5.0)


def test_admissions_are_numbered_per_request():
    made = [
        sequence(0, admissions=((0.0, 0),), tokens=(9.0,)),
        sequence(1, admissions=((1.0, 4), (5.0, 8), (7.0, 2)), tokens=(9.0,)),
    ]
    first, second = records(*made)
    assert [admission["admission_ordinal"] for admission in first["admission_history"]] == [0]
    history = [
        (entry["admission_ordinal"], entry["pool_admission_ordinal"], entry["at_ms"], entry["is_readmission"])
        for entry in second["admission_history"]
    ]
    assert history == [(0, 0, 1.0, False), (1, 1, 5.0, True), (2, 2, 7.0, True)]
    assert (second["admission_count"], second["readmission_count"]) == (3, 2)
    assert (second["reused_input_tokens"], second["first_admit_ms"]) == (8, 1.0)
    assert second["terminal_status"] == COMPLETED


def test_import_of_the_package_does_not_load_numpy():
    code = "import sys, aisimulate; print('numpy' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
