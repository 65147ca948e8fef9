"""Every tool's result of the same requests reads as the same run, whatever its units and definitions."""

from __future__ import annotations

import json

import numpy as np
import pytest

from aisimulate.core.errors import InputError
from aisimulate.fidelity.measured.formats import FORMATS, read_run
from tests.fidelity import made_results as made

DETAILED = {
    "vllm": made.vllm(),
    "sglang": made.sglang(),
    "aiperf-records": made.aiperf_records(),
    "guidellm": made.guidellm(),
    "inference-perf-requests": made.inference_perf_requests(),
    "aisimulate-records": made.own_records(),
}
SUMMARIES = {
    "vllm": made.vllm(detailed=False),
    "sglang": made.sglang(detailed=False),
    "aiperf": made.aiperf(),
    "guidellm": made.guidellm(requests=False),
    "inference-perf": made.inference_perf(),
}


@pytest.fixture
def written(tmp_path):
    def write(text, name="result.json"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def each(files):
    return pytest.mark.parametrize(("tool", "text"), list(files.items()), ids=list(files))


@each(DETAILED)
def test_single_requests_are_the_same_whatever_tool_wrote_them(tool, text, written):
    run = read_run(written(text))
    assert run.tool == tool
    assert len(run.requests) == len(made.REQUESTS)
    np.testing.assert_allclose(run.requests.ttft_ms, made.TTFT, rtol=1e-6)
    np.testing.assert_allclose(run.requests.tpot_ms, made.TPOT, rtol=1e-5)
    np.testing.assert_allclose(run.requests.e2e_latency_ms, made.E2E, rtol=1e-6)
    np.testing.assert_allclose(run.requests.input_tokens, made.INPUTS)
    np.testing.assert_allclose(run.requests.output_tokens, made.OUTPUTS)
    assert run.requests.statistics("ttft_ms")["p50"] == pytest.approx(120.0)  # a member of the sample
    assert run.requests.statistics("ttft_ms")["p75"] == pytest.approx(210.0)


@pytest.mark.parametrize("tool", ["vllm", "sglang", "aiperf-records", "inference-perf-requests"])
def test_gaps_are_those_of_all_requests(tool, written):
    gaps = read_run(written(DETAILED[tool])).requests.gaps_ms
    np.testing.assert_allclose(gaps, made.FLAT_GAPS, rtol=1e-6)


@pytest.mark.parametrize("tool", [tool for tool in DETAILED if tool != "sglang"])
def test_instants_count_from_the_first_arrival(tool, written):
    requests = read_run(written(DETAILED[tool])).requests
    arrivals = [arrival for arrival, _, _ in made.REQUESTS]
    np.testing.assert_allclose(requests.arrival_ms, arrivals, atol=1e-3)
    firsts = [arrival + tokens[0] for arrival, _, tokens in made.REQUESTS]
    np.testing.assert_allclose(requests.first_token_ms, firsts, atol=1e-3)
    lasts = [arrival + tokens[-1] for arrival, _, tokens in made.REQUESTS]
    np.testing.assert_allclose(requests.last_token_ms, lasts, atol=1e-3)


@pytest.mark.parametrize("tool", ["aiperf-records", "inference-perf-requests", "aisimulate-records"])
def test_totals_that_a_file_does_not_tell_come_from_its_requests(tool, written):
    run = read_run(written(DETAILED[tool]))
    expected = {
        "duration_ms": made.DURATION_S * 1000.0,
        "request_throughput_rps": len(made.REQUESTS) / made.DURATION_S,
        "output_throughput_tok_s": sum(made.OUTPUTS) / made.DURATION_S,
        "total_throughput_tok_s": (sum(made.INPUTS) + sum(made.OUTPUTS)) / made.DURATION_S,
    }
    for metric, value in expected.items():
        assert run.statistics(metric) == {"value": pytest.approx(value, rel=1e-6)}, metric


def test_totals_that_a_file_tells_are_kept(written):
    run = read_run(written(changed(made.vllm(), output_throughput=1.0)))
    assert run.statistics("output_throughput_tok_s") == {"value": 1.0}


def test_our_records_tell_when_a_request_was_scheduled(written):
    requests = read_run(written(DETAILED["aisimulate-records"])).requests
    np.testing.assert_allclose(requests.scheduled_ms - requests.arrival_ms, 1.0)


@each(SUMMARIES)
def test_a_summary_tells_means_in_our_units(tool, text, written):
    run = read_run(written(text))
    assert run.tool == tool
    assert run.requests is None
    assert run.statistics("ttft_ms")["mean"] == pytest.approx(np.mean(made.TTFT))
    assert run.statistics("e2e_latency_ms")["mean"] == pytest.approx(np.mean(made.E2E))
    assert run.reported["output_throughput_tok_s"]["value"] == pytest.approx(
        sum(made.OUTPUTS) / made.DURATION_S
    )
    assert run.reported["completed_requests"]["value"] == len(made.REQUESTS)
    assert run.reported["duration_ms"]["value"] == pytest.approx(made.DURATION_S * 1000.0)


@pytest.mark.parametrize("tool", ["vllm", "sglang", "inference-perf"])
def test_per_request_and_per_gap_latencies_stay_apart(tool, written):
    run = read_run(written(SUMMARIES[tool]))
    assert run.statistics("tpot_ms")["mean"] == pytest.approx(np.mean(made.TPOT))
    assert run.statistics("itl_ms")["mean"] == pytest.approx(np.mean(made.FLAT_GAPS))
    assert np.mean(made.TPOT) != pytest.approx(np.mean(made.FLAT_GAPS))


def test_aiperfs_inter_token_latency_is_per_request(written):
    run = read_run(written(made.aiperf()))
    assert run.statistics("tpot_ms")["mean"] == pytest.approx(np.mean(made.TPOT))
    assert run.statistics("itl_ms") == {}


@pytest.mark.parametrize("unit", ["sec", "us"])
def test_aiperf_says_its_units_and_they_are_read(unit, written):
    run = read_run(written(made.aiperf(unit=unit)))
    assert run.statistics("ttft_ms")["mean"] == pytest.approx(np.mean(made.TTFT))
    assert run.statistics("output_tokens")["mean"] == pytest.approx(np.mean(made.OUTPUTS))


def test_guidellm_weighs_requests_by_their_tokens(written):
    summary = read_run(written(made.guidellm(requests=False)))
    assert summary.statistics("tpot_ms") == {}
    assert summary.statistics("weighted_tpot_ms")["mean"] == pytest.approx(np.mean(made.FLAT_GAPS))
    assert summary.statistics("itl_ms") == {"mean": pytest.approx(np.mean(made.FLAT_GAPS))}
    ours = read_run(written(made.own_records(), "ours.jsonl"))
    for metric in ("weighted_tpot_ms", "weighted_ntpot_ms"):
        told, computed = summary.statistics(metric), ours.statistics(metric)
        for statistic in ("mean", "p50", "p90", "p99", "min", "max"):
            assert computed[statistic] == pytest.approx(told[statistic]), (metric, statistic)


@pytest.mark.parametrize("name", ["request_goodput", "request_goodput:"])
def test_goodput_of_vllm_has_two_spellings(name, written):
    run = read_run(written(changed(made.vllm(detailed=False), **{name: 2.5})))
    assert run.reported["goodput_request_throughput_rps"] == {"value": 2.5}


def test_chunks_of_aiperf_are_gaps(written):
    chunks = {"unit": "ms", "avg": 12.0, "p99": 118.0}
    run = read_run(written(changed(made.aiperf(), inter_chunk_latency=chunks)))
    assert run.statistics("itl_ms") == {"mean": 12.0, "p99": 118.0}


def test_failed_and_warm_up_requests_are_left_out_and_counted(written):
    run = read_run(written(made.aiperf_records()))
    assert run.reported["failed_requests"]["value"] == 1
    assert run.notes == ("1 requests of the warm-up were left out",)
    assert read_run(written(made.own_records())).reported["failed_requests"]["value"] == 1
    assert read_run(written(made.guidellm())).reported["failed_requests"]["value"] == 3


def test_a_file_of_several_runs_needs_a_choice(written):
    path = written(made.guidellm(rates=(1.0, 2.0)))
    with pytest.raises(InputError, match=r"has 2 runs, say which \(1: constant 1.0, 2: constant 2.0\)"):
        read_run(path)
    assert read_run(path, part=2).label == "constant 2.0"
    with pytest.raises(InputError, match="has no run 3"):
        read_run(path, part=3)
    alone = written(made.guidellm(), "alone.json")
    with pytest.raises(InputError, match="has no run 7: 1: "):
        read_run(alone, part=7)
    lines = written(made.sglang() * 2, "runs.jsonl")
    with pytest.raises(InputError, match="1: request_rate inf, max_concurrency 8"):
        read_run(lines)
    assert read_run(lines, part=1).tool == "sglang"


def test_an_unknown_file_names_what_was_looked_for(written):
    with pytest.raises(InputError) as caught:
        read_run(written('{"a": 1}'))
    for name, item in FORMATS.items():
        assert f"{name}: {item.sought}" in str(caught.value)


def test_a_format_may_be_forced_and_must_then_fit(written):
    assert read_run(written(made.vllm()), "vllm").tool == "vllm"
    with pytest.raises(InputError, match="is no result of sglang: looked for completed"):
        read_run(written(made.vllm()), "sglang")
    with pytest.raises(InputError, match="unknown result format 'vlm'; did you mean 'vllm'"):
        read_run(written(made.vllm()), "vlm")


def changed(text, **fields):
    return json.dumps(json.loads(text) | fields)


WRONG = {
    "not json": ("{", "neither JSON nor JSON Lines"),
    "empty": ("  \n", "the file is empty"),
    "text": (changed(made.vllm(), mean_ttft_ms="fast"), "result.json: mean_ttft_ms: 'fast' is not a finite"),
    "not a number": (
        '{"completed": 1, "total_output_tokens": 1, "mean_ttft_ms": NaN}',
        "NaN is not a finite",
    ),
    "lists": (changed(made.vllm(), itls=[]), "itls: has 0 entries, but ttfts has 6"),
    "gaps": (changed(made.vllm(), itls=[1.0] * 6), r"itls\[0\]: is not a list of numbers"),
    "unit": (made.aiperf().replace('"ms"', '"m"'), "time_to_first_token.unit: 'm' is not one of ns"),
    "no request": (
        '{"completed": 0, "total_output_tokens": 0, "mean_e2el_ms": null}',
        "no request completed",
    ),
    "rows": (
        made.guidellm().replace('"prompt_tokens": 512', '"prompt_tokens": "x"'),
        r"successful\[0\].prompt_tokens",
    ),
    "second line": (made.aiperf_records() + "{", r"result.json:8: neither JSON nor JSON Lines"),
}


@pytest.mark.parametrize(("text", "message"), list(WRONG.values()), ids=list(WRONG))
def test_a_wrong_file_is_refused_in_one_line(text, message, written):
    with pytest.raises(InputError, match=message) as caught:
        read_run(written(text))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(InputError, match="could not be read: No such file"):
        read_run(tmp_path / "none.json")
