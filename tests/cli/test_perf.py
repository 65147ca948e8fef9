"""The `perf` command: plain tables, one JSON document, one line per problem."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from aisimulate.cli.main import main
from aisimulate.perf.questions import PHASES, USED_BY

ENGINE = ["--model", "Qwen/Qwen3-32B-FP8", "--system", "h200_sxm", "--tp", "2"]


def run(capsys, *options):
    try:
        code = main(["perf", *options])
    except SystemExit as exit_:
        code = exit_.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def document(capsys, *options):
    code, out, err = run(capsys, *ENGINE, *options, "--format", "json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_the_document_answers_every_combination(capsys):
    found = document(
        capsys, "--batch", "1,64", "--context", "1024..4096", "--isl", "4096", "--prefix", "0,2048"
    )
    assert [(row["batch"], row["prefix"]) for row in found["prefill"]] == [
        (1, 0),
        (1, 2048),
        (64, 0),
        (64, 2048),
    ]
    assert [row["context"] for row in found["decode"]] == [1024, 2048, 4096] * 2
    assert len(found["mixed"]) == 2 * 2 * 3
    assert found["prefill"][0]["latency_ms"] == pytest.approx(165.043, abs=0.0006)
    assert found["decode"][-1]["latency_ms"] == pytest.approx(32.970, abs=0.0006)
    assert found["decode"][-1]["data"]["origin"] == "interpolated"
    assert found["capacity"]["tokens"] == 1_741_181
    assert found["capacity"]["worker_tokens"] == 27_205 * 64
    assert found["provenance"]["slot"] == "current"
    assert found["provenance"]["tables"][0] == {
        "table": "gemm",
        "framework": "vllm",
        "version": "0.24.0",
        "origin": "own",
        "path": "gemm/vllm/0.24.0/gemm_perf.parquet",
    }
    assert found["engine"]["tp"] == 2
    assert found["problems"] == []


def test_the_same_question_has_the_same_bytes(capsys):
    options = [*ENGINE, "--format", "json", "--operations"]
    assert run(capsys, *options) == run(capsys, *options)


@pytest.mark.parametrize(
    ("options", "sections"),
    [
        ([], {"prefill", "decode", "mixed"}),
        (["--context", "64"], {"decode"}),
        (["--isl", "64"], {"prefill"}),
        (["--isl", "64", "--context", "64"], {"prefill", "decode", "mixed"}),
        (["--prefill-batch", "2"], {"prefill", "decode", "mixed"}),
        (["--phase", "mixed", "--batch", "2"], {"mixed"}),
        (["--phase", "capacity"], set()),
    ],
)
def test_the_given_lengths_decide_what_is_answered(capsys, options, sections):
    found = document(capsys, *options)
    assert {name for name in ("prefill", "decode", "mixed") if found[name]} == sections
    assert (found["capacity"] is None) == (options[:2] == ["--phase", "mixed"])


def test_tables_are_plain(capsys):
    code, out, err = run(capsys, *ENGINE, "--batch", "64", "--context", "4096", "--operations")
    assert (code, err) == (0, "")
    assert out.isascii()
    assert "\x1b" not in out
    lines = out.splitlines()
    assert lines[0] == "Qwen/Qwen3-32B-FP8 on h200_sxm with vllm 0.24.0 (current)"
    assert "     64    4,096  33.0  interpolated     2.3%" in lines
    assert any(
        line.startswith("KV capacity of a rank: 1,741,181 tokens = 27,205 blocks of 64") for line in lines
    )
    assert any(line.split() == ["gemm", "vllm", "0.24.0", "own"] for line in lines)
    assert any(line.startswith("  generation_attention") and line.endswith("measured") for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_options_may_be_spelt_like_the_fields(capsys):
    spelt = ["--model_name", "Qwen/Qwen3-32B-FP8", "--hardware_sku=h200_sxm", "--tp", "2"]
    first = run(capsys, *spelt, "--max_num_batched_tokens=2048", "--phase", "capacity")
    assert first == run(capsys, *ENGINE, "--max-num-batched-tokens", "2048", "--phase", "capacity")
    assert "1,751,165 tokens" in first[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--modle", "x"], "unrecognized arguments: --modle x; did you mean '--model'?"),
        (["--model", "Qwen/Qwen3-32B"], "system: missing (required)"),
        ([*ENGINE, "--format", "tabel"], "did you mean 'table'?"),
        ([*ENGINE, "--phase", "prefil"], "did you mean 'prefill'?"),
        ([*ENGINE, "--batch", "1,x"], "'x' is not a whole number"),
        ([*ENGINE, "--batch", "8..2"], "'8..2' is not a range"),
        ([*ENGINE, "--batch", "0"], "batch: 0 is not a whole number from 1"),
        ([*ENGINE, "--isl", "64", "--prefix", "64"], "prefix: 64"),
        ([*ENGINE, "--backend", "sglan"], "did you mean 'sglang'?"),
        ([*ENGINE, "--free-gpu-memory-fraction", "0.5"], "free_gpu_memory_fraction: no effect on vllm"),
        ([*ENGINE, "--nextn", "6"], "nextn must be in 0..=5"),
        (
            [*ENGINE, "--batch", "1..1000000", "--isl", "1..1000000", "--context", "1..16000000"],
            "combinations",
        ),
    ],
)
def test_bad_input_is_one_line(capsys, options, words):
    code, out, err = run(capsys, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("aisimulate perf: error: ")
    assert words in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--phase", "capacity", "--isl", "5"], "capacity: --isl (used by prefill, mixed)"),
        (["--phase", "capacity", "--context", "7"], "capacity: --context (used by decode, mixed)"),
        (["--phase", "capacity", "--batch", "3"], "capacity: --batch (used by prefill, decode, mixed)"),
        (["--phase", "capacity", "--operations"], "capacity: --operations (used by prefill, decode)"),
        (["--phase", "mixed", "--operations"], "mixed: --operations (used by prefill, decode)"),
        (["--phase", "prefill", "--context", "5"], "prefill: --context (used by decode, mixed)"),
        (["--phase", "prefill,decode", "--prefill-batch", "7"], "decode: --prefill-batch (used by mixed)"),
        (["--phase", "decode", "--isl", "5"], "decode: --isl (used by prefill, mixed)"),
        (["--phase", "decode", "--prefix", "3"], "decode: --prefix (used by prefill, mixed)"),
        (["--phase", "prefill", "--block_size", "16"], "prefill: --block-size (used by capacity)"),
        (
            ["--phase", "decode", "--max-num-batched-tokens", "16"],
            "--max-num-batched-tokens (used by capacity)",
        ),
        (
            ["--phase", "mixed", "--gpu-memory-utilization", "0.5"],
            "--gpu-memory-utilization (used by capacity)",
        ),
        (["--phase", "prefill", "--nextn", "2"], "prefill: --nextn (used by decode, mixed)"),
        (["--isl", "64", "--nextn", "2"], "prefill, capacity: --nextn (used by decode, mixed)"),
        (
            ["--phase", "decode", "--isl", "5", "--prefix", "3"],
            "no effect on decode: --isl (used by prefill, mixed); --prefix (used by prefill, mixed)",
        ),
    ],
)
def test_options_that_the_phases_have_no_use_for_are_refused(capsys, options, words):
    code, out, err = run(capsys, *ENGINE, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("aisimulate perf: error: no effect on ")
    assert words in err


VALUES = {
    "batch": "3",
    "isl": "512",
    "prefix": "16",
    "context": "512",
    "prefill_batch": "2",
    "nextn": "1",
    "operations": None,
    "block_size": "16",
    "max_num_batched_tokens": "2048",
    "gpu_memory_utilization": "0.5",
}


@pytest.mark.parametrize("name", VALUES)
def test_an_option_changes_every_phase_that_is_said_to_use_it(capsys, name):
    flag = f"--{name.replace('_', '-')}"
    given = [flag] if VALUES[name] is None else [flag, VALUES[name]]
    for phase in USED_BY[name]:
        assert document(capsys, "--phase", phase, *given)[phase] != document(capsys, "--phase", phase)[phase]


def test_every_option_with_a_phase_is_tried():
    other_backends = {"mem_fraction_static", "free_gpu_memory_fraction"}
    assert {*VALUES, *other_backends} == set(USED_BY)
    assert {phase for phases in USED_BY.values() for phase in phases} == set(PHASES)


def test_a_figure_that_cannot_be_had_leaves_the_others(capsys):
    code, out, err = run(
        capsys, "--model", "meta-llama/Meta-Llama-3.1-70B", "--system", "h100_sxm", "--context", "64"
    )
    assert (code, err.count("\n")) == (1, 1)
    assert "no KV budget" in err
    assert "decode" in out


def test_a_shape_that_the_model_does_not_allow_is_bad_input(capsys):
    code, out, err = run(capsys, *ENGINE[:-1], "3")
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_help_and_mistakes_load_nothing_heavy():
    code = (
        "import sys, contextlib, io\n"
        "from aisimulate.cli.main import main\n"
        "for arguments in (['perf', '--help'], ['perf', '--modle'], ['perf', '--batch', 'x']):\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):\n"
        "        with contextlib.suppress(SystemExit): main(arguments)\n"
        "heavy = {'numpy', 'pandas', 'pydantic', 'rich', 'yaml', 'orjson', 'aiconfigurator_core'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
