"""A measured run beside a simulated one: errors, what only one side tells, and numbers that look wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from aisimulate.cli.main import main
from aisimulate.fidelity.comparison import compare_runs
from aisimulate.fidelity.measured.formats import read_run
from aisimulate.report.page.render import plotly_js
from tests.fidelity import made_results as made


@pytest.fixture
def files(tmp_path):
    def write(measured, simulated):
        paths = tmp_path / "measured.json", tmp_path / "simulated.json"
        for path, text in zip(paths, (measured, simulated), strict=True):
            path.write_text(text)
        return paths

    return write


def compared(files, measured, simulated):
    return compare_runs(*map(read_run, files(measured, simulated)))


def test_errors_are_relative_and_signed(files):
    comparison = compared(files, made.vllm(), made.own_records(scale=0.8))
    for metric in ("ttft_ms", "tpot_ms", "e2e_latency_ms"):
        for statistic, difference in comparison.of(metric).items():
            assert difference.error == pytest.approx(-0.2), (metric, statistic)
    assert comparison.of("ttft_ms")["mean"].measured == pytest.approx(np.mean(made.TTFT))
    assert comparison.of("output_tokens")["mean"].error == pytest.approx(0.0)


def test_what_only_one_side_tells_is_named(files):
    comparison = compared(files, made.vllm(), made.own_records())
    assert "itl_ms" in comparison.only_measured
    assert "ttst_ms" in comparison.only_simulated
    assert not set(comparison.only_measured) & {item.metric for item in comparison.differences}


def test_percentiles_of_both_are_taken_alike(files):
    """The summary of vLLM interpolates; beside requests of both sides that must make no error."""
    comparison = compared(files, made.vllm(), made.own_records())
    assert {round(item.error, 9) for item in comparison.of("ttft_ms").values()} == {0.0}
    summary = compared(files, made.vllm(detailed=False), made.own_records())
    assert summary.of("ttft_ms")["p99"].error != pytest.approx(0.0)


def test_what_a_tool_weighs_by_tokens_is_compared_only_where_it_reports_that(files):
    assert not compared(files, made.vllm(), made.own_records()).of("weighted_tpot_ms")
    told = compared(files, made.guidellm(requests=False), made.own_records()).of("weighted_tpot_ms")
    assert told["p90"].error == pytest.approx(0.0)


def test_requests_are_paired_where_both_files_have_the_same(files):
    pairs = {pair.metric: pair for pair in compared(files, made.vllm(), made.own_records(scale=1.1)).pairs}
    assert pairs["ttft_ms"].requests == len(made.REQUESTS)
    assert pairs["ttft_ms"].median_error == pytest.approx(0.1)
    assert not compared(files, made.vllm(detailed=False), made.own_records()).pairs


def test_seconds_taken_for_milliseconds_are_doubted(files):
    comparison = compared(files, made.vllm(), made.own_records(scale=0.001))
    assert any(
        doubt.startswith("Time to first token, ms: 176 measured against 0.176 simulated: about 1,000 apart")
        for doubt in comparison.doubts
    )
    assert not compared(files, made.vllm(), made.own_records()).doubts


def test_a_file_that_contradicts_its_own_requests_is_doubted(files):
    wrong = json.dumps(json.loads(made.vllm()) | {"mean_ttft_ms": 0.176})
    doubts = compared(files, wrong, made.own_records()).doubts
    assert (
        "measured.json: says a mean ttft_ms of 0.176, its requests give 176: about 1,000 apart, as"
        in doubts[0]
    )
    swapped = json.dumps(json.loads(made.vllm(detailed=False)) | {"mean_ttft_ms": 9999.0})
    assert any("a unit is wrong" in doubt for doubt in compared(files, swapped, made.own_records()).doubts)


def test_other_traffic_is_doubted(files):
    fewer = "".join(line + "\n" for line in made.own_records().splitlines()[:3])
    doubts = compared(files, made.vllm(), fewer).doubts
    assert any(
        "Completed requests: 5 measured against 3 simulated: not the same traffic" in d for d in doubts
    )


def test_the_command_prints_a_table(files, capsys):
    measured, simulated = files(made.vllm(), made.own_records(scale=1.25))
    assert main(["compare", str(measured), str(simulated)]) == 0
    shown = capsys.readouterr()
    assert "measured:  measured.json, vllm, request_rate inf, max_concurrency 8, 5 completed" in shown.out
    assert "simulated: simulated.json, aisimulate-records, 5 completed" in shown.out
    block = shown.out.split("Time to first token, ms\n")[1].splitlines()[:3]
    assert block[0].split() == [
        "measured",
        "176.0",
        "120.0",
        "210.0",
        "400.0",
        "400.0",
        "400.0",
        "60.0",
        "400.0",
    ]
    assert block[1].split() == [
        "simulated",
        "220.0",
        "150.0",
        "262.5",
        "500.0",
        "500.0",
        "500.0",
        "75.0",
        "500.0",
    ]
    assert block[2].split() == ["error", *["+25.0%"] * 8]
    assert "only measured: itl_ms" in shown.out
    assert "note: vllm: its ITL is per chunk" in shown.out
    assert shown.err == ""


def test_the_command_prints_json(files, capsys):
    measured, simulated = files(made.inference_perf(), made.own_records(scale=0.5))
    assert main(["compare", str(measured), str(simulated), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["measured"] == {
        "file": "measured.json",
        "format": "inference-perf",
        "load": "",
        "has_requests": False,
        "notes": [],
    }
    ttft = document["metrics"]["ttft_ms"]["statistics"]["mean"]
    assert ttft["relative_error"] == pytest.approx(-0.5)
    assert "goodput_request_throughput_rps" in document["only_measured"]


def test_the_page_overlays_both_distributions(files, tmp_path, capsys):
    measured, simulated = files(made.vllm(), made.own_records(scale=1.25))
    page = tmp_path / "page.html"
    page.write_text("another's page")
    assert main(["compare", str(measured), str(simulated), "--html", str(page)]) == 2
    assert page.read_text() == "another's page"
    page.unlink()
    assert main(["compare", str(measured), str(simulated), "--html", str(page)]) == 0
    text = page.read_text()
    data = json.loads(text.split('id="page-data">')[1].split("</script>")[0])
    plots = {plot["name"]: plot for plot in data["plots"]}
    ttft = plots["cdf-ttft_ms"]["traces"]
    assert [trace["name"] for trace in ttft] == ["measured", "simulated"]
    assert ttft[0]["x"] == pytest.approx(sorted(made.TTFT))
    assert ttft[0]["y"] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert [trace["name"] for trace in plots["cdf-itl_ms"]["traces"]] == ["measured"]
    own = text.replace(plotly_js(), "")
    assert "http" not in own.replace("http-equiv", "")
    assert str(tmp_path) not in own
    assert "+25.0%" in own
    capsys.readouterr()


def test_markup_in_a_file_is_no_markup_on_the_page(files, tmp_path, capsys):
    hostile = json.dumps(json.loads(made.vllm()) | {"request_rate": "<img src=x onerror=alert(1)>"})
    page = tmp_path / "page.html"
    assert main(["compare", *map(str, files(hostile, made.own_records())), "--html", str(page)]) == 0
    assert "<img" not in page.read_text().replace(plotly_js(), "")
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--measured-format", "vlm"], "'vlm' is not one of aisimulate, aisimulate-records, vllm"),
        (["--measured-run", "0"], "'0' is not a whole number >= 1"),
        (["--measured-run", "2"], "has no run 2: 1: request_rate inf"),
        (["--html", "nowhere/page.html"], "nowhere is not a directory"),
    ],
)
def test_bad_input_is_told_in_one_line(options, message, files, capsys):
    arguments = ["compare", *map(str, files(made.vllm(), made.own_records())), *options]
    try:
        code = main(arguments)
    except SystemExit as ending:
        code = ending.code
    shown = capsys.readouterr()
    assert code == 2
    assert message in shown.err
    assert shown.out == ""


def test_the_page_must_not_replace_an_input(files, capsys):
    measured, simulated = files(made.vllm(), made.own_records())
    assert main(["compare", str(measured), str(simulated), "--html", str(measured)]) == 2
    assert "would overwrite the input" in capsys.readouterr().err
    assert json.loads(measured.read_text())


@pytest.mark.parametrize(
    ("field", "value"),
    [("mean_ttft_ms", -5), ("output_throughput", -1.0), ("ttfts", [-0.1]), ("itls", [[-0.1]])],
)
def test_negative_times_and_rates_are_refused_by_field(field, value, files, capsys):
    measured = json.loads(made.vllm())
    measured[field] = [*value, *measured[field][1:]] if isinstance(value, list) else value
    assert main(["compare", *map(str, files(json.dumps(measured), made.own_records()))]) == 2
    err = capsys.readouterr().err
    assert f"measured.json: {field}" in err
    assert "is negative" in err
    assert err.count("\n") == 1


def test_swapped_files_are_noticed(files):
    said = "are they swapped?"
    assert any(said in doubt for doubt in compared(files, made.own_records(), made.vllm()).doubts)
    for measured in (made.vllm(), made.own_records()):
        assert not any(said in doubt for doubt in compared(files, measured, made.own_records()).doubts)
