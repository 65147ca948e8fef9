"""The validation: reading runs, one outcome for each, and a page that says what the command prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from aisimulate.core.errors import InputError
from aisimulate.replay.execute import execute
from tools.validate.__main__ import FILES, PAGE, RESULTS, main
from tools.validate.bundled import bundled_runs
from tools.validate.cut import cut, table_text
from tools.validate.deployments import aic_settings, payload_of
from tools.validate.errors import Errors
from tools.validate.front_end import FrontEnd, fitted, left_out, preset, teachers
from tools.validate.health import judged_engines, quickstart_runs
from tools.validate.leave_out import Lists, interpolated, one_row, two_rows
from tools.validate.outcomes import (
    FAILED,
    KINDS,
    PRICED,
    REFUSED,
    SET_ASIDE,
    Outcome,
    outcome_of,
    outcomes_of,
)
from tools.validate.page import page_text
from tools.validate.repeats import disturbed, set_aside
from tools.validate.results import read_results, results_text
from tools.validate.runs import MeasuredRun, Pool, read_runs
from tools.validate.scored import confidence_of, doubts_of, judged, scored
from tools.validate.text import all_tables

LLAMA = MeasuredRun(
    id="a",
    model="meta-llama/Llama-3.1-8B-Instruct",
    system="h100_sxm",
    backend="vllm",
    backend_version="0.18.0",
    precision="",
    pools=(Pool(1, 1, 1, 1, 1, 1),),
    isl=256,
    osl=32,
    concurrency=2,
    ttft_ms=30.0,
    tpot_ms=8.0,
)
DEEPSEEK = replace(LLAMA, model="deepseek-ai/DeepSeek-V3", backend="trtllm", pools=(Pool(1, 8, 1, 1, 8, 1),))
HEADER = (
    "id,model,hardware,backend,precision,mode,tp,attn_dp,moe_tp,moe_ep,isl,osl,concurrency,ttft_ms,tpot_ms\n"
)
ROW = "r1,m,h200_sxm,vllm,fp8,agg,2,0,,1,1024,128,8,50.5,7\n"


def shipped():
    return [run for path in FILES for run in read_runs(path)]


def table(tmp_path, text):
    path = tmp_path / "runs.csv"
    path.write_text(text)
    return path


def priced(concurrency, ttft_ms, tpot_ms, simulated_ttft_ms, simulated_tpot_ms, **fields):
    run = replace(
        LLAMA, id=f"c{concurrency}", concurrency=concurrency, ttft_ms=ttft_ms, tpot_ms=tpot_ms, **fields
    )
    return Outcome(run, PRICED, "", simulated_ttft_ms, simulated_tpot_ms)


def test_rows_are_read_with_empty_and_zero_sizes_as_one(tmp_path):
    (run,) = read_runs(table(tmp_path, HEADER + ROW))
    assert run.pools == (Pool(1, 2, 1, 1, 1, 1),)
    assert (run.concurrency, run.ttft_ms, run.tpot_ms) == (8, 50.5, 7.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (HEADER.replace("isl", "length") + ROW, r"runs\.csv:1: the column 'isl' is missing"),
        (HEADER + ROW.replace("agg", "both"), r"runs\.csv:2: mode 'both' is not agg or disagg"),
        (HEADER + ROW.replace("1024", "1k"), r"runs\.csv:2: isl '1k' is not a whole number from 1 on"),
        (HEADER + ROW.replace("50.5", "nan"), r"runs\.csv:2: ttft_ms 'nan' is not a number above 0"),
        (HEADER + ROW + ROW, r"runs\.csv:3: the id 'r1' is used twice"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_in_one_line(tmp_path, text, problem, capsys):
    path = table(tmp_path, text)
    with pytest.raises(InputError, match=problem):
        read_runs(path)
    assert main([str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_protocol_is_that_of_the_chapter():
    spec = payload_of(replace(LLAMA, concurrency=300, isl=1000, osl=100))["spec"]
    rank = spec["engine"]["rank"]
    assert (spec["max_in_flight"], len(spec["requests"])) == (300, 3000)
    assert (rank["max_num_seqs"], rank["max_num_batched_tokens"]) == (300, 8192)
    assert rank["enable_prefix_caching"] is False
    assert "num_gpu_blocks" not in rank
    inputs = [request["input_tokens"] for request in spec["requests"]]
    outputs = [request["output_tokens"] for request in spec["requests"]]
    assert (min(inputs), max(inputs), min(outputs), max(outputs)) == (800, 1000, 80, 100)
    assert {request["arrival_time_ms"] for request in spec["requests"]} == {0.0}
    assert len(payload_of(replace(LLAMA, concurrency=1))["spec"]["requests"]) == 20


def test_a_precision_is_the_published_checkpoint_of_it():
    llama = replace(LLAMA, model="meta-llama/Llama-3.1-70B", precision="fp8")
    assert aic_settings(llama, llama.pools[0])["model"] == "nvidia/Llama-3.1-70B-Instruct-FP8"
    fp4 = replace(llama, precision="fp4")
    assert aic_settings(fp4, fp4.pools[0])["gemm_dtype"] == "nvfp4"
    assert "moe_tp_size" not in aic_settings(fp4, fp4.pools[0])


def test_every_run_has_one_outcome():
    wrong = replace(LLAMA, id="wrong", system="no_such_gpu")
    uncut = replace(
        LLAMA, id="uncut", model="MiniMaxAI/MiniMax-M2.5", system="h200_sxm", pools=(Pool(1, 8, 1, 1, 8, 1),)
    )
    again = replace(LLAMA, id="again")
    runs = [LLAMA, wrong, uncut, again]
    outcomes = outcomes_of(runs)
    assert [outcome.run for outcome in outcomes] == runs
    assert [outcome.kind for outcome in outcomes] == [PRICED, REFUSED, FAILED, SET_ASIDE]
    assert all((outcome.kind == PRICED) == (not outcome.reason) for outcome in outcomes)
    assert outcomes[0].ttft_ms > 0
    assert [one.grade for one in judged(outcomes)] == ["high", "", "", ""]


def test_runs_of_prefill_and_decode_pools_are_replayed():
    pair = replace(LLAMA, pools=(Pool(2, 1, 1, 1, 1, 1), Pool(1, 2, 1, 1, 1, 1)))
    assert outcome_of(pair).kind == PRICED


def test_another_name_of_a_model_and_a_fast_twin_are_set_aside():
    alias = replace(DEEPSEEK, id="alias", model="deepseek-ai/DeepSeek-R1")
    slow = replace(DEEPSEEK, id="slow", tpot_ms=8.0 * 1.6)
    found = set_aside([DEEPSEEK, alias, slow])
    assert found["alias"] == "duplicate of a"
    assert found["a"].startswith("contaminated: 1.60 times faster than slow")
    assert set(found) == {"alias", "a"}
    assert set_aside([DEEPSEEK], [slow]).keys() == {"a"}
    assert not set_aside([LLAMA, replace(LLAMA, id="slow", tpot_ms=12.8)])


def test_a_curve_that_falls_with_load_is_told():
    rows = [
        replace(LLAMA, id=str(c), concurrency=c, tpot_ms=ms) for c, ms in ((1, 8), (2, 40), (4, 10), (8, 11))
    ]
    assert disturbed(rows).keys() == {"2"}
    more = [*rows, replace(LLAMA, id="16", concurrency=16, tpot_ms=7)]
    assert disturbed(more).keys() == {"1", "2", "4", "8", "16"}
    assert disturbed(rows[:1], rows[1:]).keys() == set()
    assert not disturbed([rows[0], rows[2], rows[3]])


def test_wide_workers_and_implausible_data_are_not_clean():
    wide = replace(DEEPSEEK, pools=(Pool(1, 64, 1, 1, 8, 8),))
    assert doubts_of(wide, confidence_of(LLAMA), {}) == ("a worker of 64 GPUs",)
    assert doubts_of(LLAMA, confidence_of(LLAMA), {"a": "said"}) == ("said",)
    block = replace(
        LLAMA, model="Qwen/Qwen3-32B", system="h200_sxm", precision="fp8", pools=(Pool(1, 2, 1, 1, 1, 1),)
    )
    assert "not physical" in doubts_of(block, confidence_of(block), {})[0]


def test_one_row_corrects_a_constant_factor_nearby_and_two_rows_what_lies_between():
    rows = [priced(c, 20.0 * c, 5.0 * c, 10.0 * c, 4.0 * c) for c in (2, 4, 8)]
    errors = Lists()
    two_rows(rows, errors)
    assert errors.tpot == pytest.approx([0.0], abs=1e-4)
    assert errors.ttft == pytest.approx([0.0], abs=1e-4)
    errors = Lists()
    one_row(rows, errors)
    assert len(errors.tpot) == 6
    # A factor of 1.25 fades by a twelfth of its logarithm for each doubling of the load.
    assert errors.tpot[0] == pytest.approx(1.25 ** (-1 / 12) - 1, abs=1e-4)
    errors = Lists()
    interpolated(rows, errors)
    assert errors.ttft == pytest.approx([0.0])


def test_a_front_end_is_fitted_without_the_model_that_is_scored():
    late = [priced(c, 100.0 + 10.0 * c, c, 10.0 * c, c, model="x/other") for c in (2.0, 4.0, 8.0)]
    assert fitted(late) == FrontEnd(1, 100.0)
    own = priced(3, 7.0, 5.0, 30.0, 5.0)
    assert left_out([own], [*late, own])[own.run.id] == FrontEnd(1, 100.0)
    assert left_out(late, late)["c2.0"] == FrontEnd()


def test_one_number_for_the_first_token_is_fitted_whichever_misses_less():
    """Four tokens are 20 ms at 5 ms each and 40 ms at 10 ms: no constant is both."""
    chunks = [priced(c, 100.0 + 3 * c, float(c), 100.0, float(c), model=f"x/{c}") for c in (5, 10)]
    assert fitted(chunks) == FrontEnd(4)
    seen = FrontEnd(4, 10.0, 2.0)
    outcome = priced(2, 1.0, 1.0, 100.0, 5.0, osl=11, notes="h100_sxm/vllm/0.12.0/m.csv")
    assert seen.ttft_ms(outcome) == 100.0 + 2.0 + 3 * 7.0 + 10.0
    assert seen.tpot_ms(outcome) == pytest.approx(7.0 * 7 / 10)  # 10 gaps, of which 3 before the first chunk


def test_an_overhead_is_one_by_which_no_model_gets_worse():
    slow = [priced(c, 52.0, 7.0, 50.0, 5.0, model="x/slow") for c in (2, 4)]
    right = priced(8, 50.0, 5.0, 50.0, 5.0, model="x/right")
    assert fitted(slow) == FrontEnd(step_overhead_ms=2.0)
    assert fitted([*slow, right]).step_overhead_ms == 0.0


def test_the_model_that_is_missed_most_decides_however_few_runs_it_has():
    many = [priced(c, 100.0, 5.0, 50.0, 5.0, model="x/many") for c in (2, 4, 8, 16)]
    few = priced(3, 80.0, 5.0, 50.0, 5.0, model="x/few")
    assert fitted(many) == FrontEnd(11)
    assert fitted([*many, few]) == FrontEnd(9)  # -10 % and +12.5 %


def test_runs_of_the_laboratory_have_no_chunks_and_tell_of_none():
    notes = "h100_sxm/vllm/0.12.0/m.csv"
    late = [priced(c, 100.0 + 10.0 * c, c, 10.0 * c, c, model="x/other") for c in (2.0, 4.0)]
    own = priced(3, 7.0, 5.0, 30.0, 5.0)
    ends = left_out([own, replace(late[0], run=replace(late[0].run, id="l", notes=notes))], [*late, own])
    assert ends == {"c3": FrontEnd(1, 100.0), "l": FrontEnd()}
    slow = [priced(c, 52.0, 7.0, 50.0, 5.0, model="x/slow") for c in (2, 4)]
    there = replace(own, run=replace(own.run, notes=notes))
    assert left_out([there], slow)["c3"] == FrontEnd(step_overhead_ms=2.0)
    told = [replace(one, run=replace(one.run, notes=notes)) for one in late]
    assert left_out([own], told)["c3"] == FrontEnd()


def test_the_presets_are_fits_to_the_recorded_results():
    runs = scored(read_results(RESULTS, shipped()))
    for backend in ("sglang", "trtllm", "vllm"):
        assert preset(backend) == fitted(teachers([one.outcome for one in runs if one.is_clean], backend))


def test_the_arithmetic_of_a_front_end_is_near_a_replay_with_it():
    run = replace(LLAMA, backend="sglang", isl=1024, osl=256, concurrency=16)
    plain, payload = outcome_of(run), payload_of(run)
    for values in ({"step_overhead_ms": 2.0}, {"stream_interval": 9}, {"ttft_offset_ms": 50.0}):
        report = execute({"spec": payload["spec"] | {"frontend": values}})
        end = FrontEnd(**values)
        assert end.tpot_ms(plain) == pytest.approx(report["mean_tpot_ms"], rel=0.02)
        assert end.ttft_ms(plain) == pytest.approx(report["mean_ttft_ms"], rel=0.1)


def test_runs_of_the_laboratory_have_the_nominal_lengths():
    for notes, shortest in (
        ("h100_sxm/trtllm/1.0.0rc3/Qwen_Qwen3-32B.csv; silicon_concurrency=8", 80),
        ("source_file=/home/x/data/gb200/sglang/0.5.1/m.csv", 80),
        ("source_file=2026-03-25.csv; image=vllm/vllm-openai:v0.18.0", 64),
        ("", 64),
    ):
        requests = payload_of(replace(LLAMA, osl=80, concurrency=40, notes=notes))["spec"]["requests"]
        assert min(request["output_tokens"] for request in requests) == shortest


def test_errors_are_summed_up():
    assert str(Errors.of([0.1, -0.3, 0.2])) == "20.0% / 20.0% / +10.0%"
    assert Errors.of([]) is None


def test_the_second_file_is_cut_out_of_the_bundled_one():
    anchors = read_runs(FILES[0])
    text = FILES[1].read_text("utf-8")
    source = text.splitlines()[1].split(",")[1]
    assert table_text(cut(bundled_runs(), anchors), source) == text


def test_the_page_is_what_the_command_prints():
    runs = shipped()
    found = read_results(RESULTS, runs)
    assert results_text(found) == RESULTS.read_text("utf-8")
    assert page_text(all_tables(found)) == PAGE.read_text("utf-8")
    counts = Counter(one.outcome.kind for one in found)
    assert set(counts) <= set(KINDS)
    assert counts.total() == len(runs)


def test_recorded_results_are_those_of_replays_now():
    runs = [run for run in shipped() if run.concurrency <= 4 and run.osl <= 512]
    recorded = {one.outcome.run.id: one for one in read_results(RESULTS, shipped())}
    assert len(runs) >= 2
    for one in judged(outcomes_of(runs)):
        assert one == recorded[one.outcome.run.id]


def test_of_the_shipped_engines_block_fp8_on_vllm_is_flagged_and_nothing_else():
    engines = judged_engines([*(run for run in shipped() if run.concurrency <= 8), *quickstart_runs()])
    flagged = {key for key, confidence in engines.items() if confidence.implausible}
    assert flagged == {
        key for key in engines if key[:2] == ("MiniMaxAI/MiniMax-M2.5", "fp8") and "tp8" not in key[4]
    }
    assert len(flagged) >= 3


def test_health_is_printed_without_replays(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("tools.validate.__main__.outcomes_of", None)
    assert main([str(table(tmp_path, HEADER + ROW.replace("m,", "Qwen/Qwen3-32B,", 1))), "--health"]) == 0
    assert "Health of the data: 1 of 5 deployments flagged" in capsys.readouterr().out
    assert main(["--health", "--write"]) == 2


def test_a_calibration_that_is_refused_is_counted():
    rows = [priced(2, 10.0, 5.0, 10.0, 500.0), priced(4, 10.0, 5.0, 10.0, 5.0)]
    errors = Lists()
    one_row(rows, errors)
    assert (len(errors.tpot), errors.refused) == (1, 1)
