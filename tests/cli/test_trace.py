"""`aisimulate trace`: figures, problems and Mooncake rows of any readable trace."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from aisimulate.cli.main import main
from aisimulate.replay.execute import execute
from aisimulate.workload.formats import TRACE_FORMATS, load_trace

ROW = {"timestamp": 0, "input_length": 8, "output_length": 2, "hash_ids": [1, 2]}
SESSIONS = [
    {**ROW, "session_id": "a", "timestamp": 100},
    {**ROW, "timestamp": 150, "hash_ids": [1, 3], "request_id": "r", "priority": 2},
    {**ROW, "session_id": "a", "delay": 50.5, "input_length": 12, "hash_ids": [1, 2, 4]},
]
STARTED = {"schema": "dynamo.request.trace.v1", "event_type": "request_end", "event_time_unix_ms": 9}
SERVED = {"trace_block_size": 4, "input_length": 8, "input_sequence_hashes": [1, 2**40]}
DYNAMO = {**STARTED, "request": {"request_id": "a", "output_tokens": 2, "replay": SERVED}}
CHAT = {"chat_id": 1, "timestamp": 0.25, "input_length": 20, "output_length": 3, "hash_ids": [1, 2]}
TRACES = Path(__file__).parents[1] / "data" / "traces"
TOOLS = {
    "num_turns": 1,
    "input_prompt_length": 600,
    "assistant_response_length": [3],
    "tool_call_output_length": [5],
    "tool_call_latency": [0.5],
    "final_assistant_response_length": 2,
}
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-12 00:00:10,700,1\n2024-05-12 00:00:00.5,20,0\n"
BURST = "Timestamp,Session ID,Elapsed time,Request tokens,Response tokens\n1.5,u,1,9,4\n5,u,1,10,4\n"


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


EXAMPLES = {
    "mooncake": lines(*SESSIONS),
    "mooncake-delta": lines(*SESSIONS),
    "dynamo": lines(DYNAMO),
    "azure": AZURE,
    "burstgpt": BURST,
    "bailian": lines(CHAT, {**CHAT, "chat_id": 2, "parent_chat_id": 1, "timestamp": 3.5}),
    "lengths": lines(
        {"prompt_len": 3, "output_len": 4, "arrival_ms": 5.5}, {"prompt_len": 600, "output_len": 1}
    ),
    "agentic_mooncake": (TRACES / "plays.jsonl").read_text(),
    "applied_compute_agentic": lines(TOOLS),
    "weka": json.dumps(json.loads((TRACES / "subagent.json").read_text())),
}
GRAPHS = ("agentic_mooncake", "weka")


@pytest.fixture
def trace(tmp_path):
    """Write text as a trace; returns its path."""

    def write(text, name="t"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def run(capsys, *arguments):
    """Run the command; its exit code, stdout and stderr."""
    try:
        code = main(["trace", *map(str, arguments)])
    except SystemExit as stop:
        code = stop.code
    done = capsys.readouterr()
    return code, done.out, done.err


def test_there_is_an_example_of_every_format():
    assert tuple(EXAMPLES) == TRACE_FORMATS


# stats ------------------------------------------------------------------------------------------------


def test_stats_of_sessions(trace, capsys):
    code, out, err = run(capsys, "stats", trace(lines(*SESSIONS)), "--trace-block-size", 4)
    assert (code, err) == (0, "")
    assert out == (
        "requests              3 in 2 sessions\n"
        "duration              0.05050 s\n"
        "rate                  59.4 requests/s, 554.5 input tokens/s, 118.8 output tokens/s\n"
        "total                 28 input tokens, 6 output tokens\n"
        "ideal prefix reuse    42.9% of the input tokens, if every block were kept for ever\n"
        "\n"
        "                              mean         min         p50         p90         p99         max\n"
        "input tokens                   9.3           8           8          12          12          12\n"
        "output tokens                  2.0           2           2           2           2           2\n"
        "turns per session              1.5           1           2           2           2           2\n"
    )


def test_stats_as_json(trace, capsys):
    path = trace(lines(*SESSIONS))
    code, out, _ = run(capsys, "stats", path, "--trace-block-size", 4, "--format", "json")
    values = json.loads(out)
    assert code == 0
    assert values["files"] == [str(path)]
    assert (values["trace_format"], values["trace_block_size"], values["notes"]) == ("mooncake", 4, [])
    assert (values["requests"], values["sessions"], values["input_tokens"]) == (3, 2, 28)
    assert values["requests_per_s"] == pytest.approx(3 / 0.0505)
    # 4 tokens of the second request, 8 of the last.
    assert values["ideal_prefix_hit_ratio"] == 12 / 28
    assert values["input_tokens_per_request"]["p99"] == 12


def test_percentiles_are_members_of_the_sample(trace, capsys):
    rows = [{"prompt_len": n, "output_len": 1, "arrival_ms": n} for n in range(1, 102)]
    _, out, _ = run(capsys, "stats", trace(lines(*rows)), "--trace-format", "lengths", "--format", "json")
    values = json.loads(out)["input_tokens_per_request"]
    assert [values[name] for name in ("min", "p50", "p90", "p99", "max", "mean")] == [1, 51, 91, 100, 101, 51]


def test_deltas_add_up(trace, capsys):
    arguments = ("--trace-format", "mooncake-delta", "--trace-block-size", 4, "--format", "json")
    _, out, _ = run(capsys, "stats", trace(lines(*SESSIONS)), *arguments)
    values = json.loads(out)
    # Prompts of 8, 8 and 8 + 2 + 12 tokens; 4 of the second and the 10 of the history were there before.
    assert (values["input_tokens"], values["ideal_prefix_hit_ratio"]) == (38, 14 / 38)


def test_what_is_unknown_says_so(trace, capsys):
    path = trace(lines({"prompt_len": 3, "output_len": 4}))
    code, out, err = run(capsys, "stats", path, "--trace-format", "lengths")
    assert code == 0
    assert (
        "duration              unknown (not every session has a time)\nrate                  unknown\n" in out
    )
    assert "ideal prefix reuse    unknown (the trace has no content ids)\n" in out
    assert err == f"note: {path}:1: session 'request_1' has no time: replays need a concurrency cap\n"
    _, out, _ = run(capsys, "stats", path, "--trace-format", "lengths", "--format", "json")
    values = json.loads(out)
    assert [values[name] for name in ("duration_s", "requests_per_s", "trace_block_size")] == [None] * 3


def mooncake(times):
    return lines(*({**ROW, "timestamp": time} for time in times))


UNITS = [
    ("mooncake", mooncake([1.7e9, 1.7e9 + 5]), "times from 1700000000 ms look like seconds since 1970"),
    (
        "mooncake",
        mooncake(range(100)),
        "100 sessions in 0.099 s are 1,010 per second: times are taken as ms; are they s?",
    ),
    ("mooncake", mooncake(range(0, 10**8, 10**6)), "per second: times are taken as ms; are they us?"),
    ("bailian", lines(*({**CHAT, "chat_id": n, "timestamp": n * 1000} for n in range(100))), "are they ms?"),
    ("mooncake", mooncake(range(0, 2000, 20)), None),
    ("mooncake", mooncake([0] * 100), None),
    ("mooncake", mooncake(range(99)), None),
    ("mooncake", mooncake([1.7e12, 1.7e12 + 5]), None),
    ("bailian", lines(*({**CHAT, "chat_id": n, "timestamp": n} for n in range(100))), None),
    ("azure", AZURE, None),
]


@pytest.mark.parametrize(("trace_format", "text", "note"), UNITS)
def test_times_in_another_unit_are_noticed(trace_format, text, note, trace, capsys):
    code, _, err = run(capsys, "stats", trace(text), "--trace-format", trace_format)
    assert code == 0
    assert (note is None) == (err == "")
    assert (note or "") in err


# validate ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRACE_FORMATS)
def test_a_sound_trace_is_ok(name, trace, capsys):
    code, out, _ = run(capsys, "validate", trace(EXAMPLES[name], "t.jsonl"), "--trace-format", name)
    assert code == 0
    assert out.startswith("ok: ") and out.count("\n") == 1


def test_ok_counts(trace, capsys):
    _, out, _ = run(capsys, "validate", trace(lines(*SESSIONS)))
    assert out == "ok: 3 requests in 2 sessions, 28 input tokens, 6 output tokens\n"


BAD_ROWS = {
    "mooncake": (lines(ROW, {"x": 1}, ROW, {**ROW, "hash_ids": []}) + "{", [2, 4, 5]),
    "dynamo": (lines(DYNAMO, {"event_type": "x"}, DYNAMO, {**DYNAMO, "request": 1}) + "{", [2, 4, 5, 3]),
    "azure": (AZURE + "x,1,1\n2024-05-12 00:00:10,1\n2024-05-12 00:00:10,-1,1\n", [4, 5, 6]),
    "burstgpt": (BURST + "x,u,1,1,1\n1,2\n1,u,1,-1,1\n", [4, 5, 6]),
    "bailian": (lines(CHAT, {"x": 1}, CHAT) + "{\n" + lines({**CHAT, "chat_id": 5}), [2, 4, 3]),
    "lengths": (lines({"prompt_len": 1}, {"prompt_len": 1, "output_len": 1}, 5) + "{", [1, 3, 4]),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_every_wrong_row_is_listed(name, trace, capsys):
    text, numbers = BAD_ROWS[name]
    path = trace(text)
    code, out, _ = run(capsys, "validate", path, "--trace-format", name)
    assert code == 2
    assert [line.split(": ")[0] for line in out.splitlines()] == [f"{path}:{number}" for number in numbers]


@pytest.mark.parametrize("name", ["azure", "lengths", "mooncake"])
def test_a_trace_without_a_sound_row(name, trace, capsys):
    bad = {"azure": AZURE.splitlines()[0] + "\nx,1,1\n", "lengths": "5\n", "mooncake": "5\n"}[name]
    code, out, err = run(capsys, "validate", trace(bad), "--trace-format", name)
    assert (code, out.count("\n")) == (2, 1)
    assert ("--trace-format" in err) == (name == "mooncake")  # which nobody may have chosen


def test_many_problems_are_counted(trace, capsys):
    path = trace("{\n" * 130)
    code, out, _ = run(capsys, "validate", path)
    assert code == 2
    assert out.splitlines()[99:] == [
        f"{path}:100: not JSON: unexpected end of data (column 2)",
        "... and 30 more problems",
    ]
    _, out, _ = run(capsys, "validate", path, "--format", "json")
    values = json.loads(out)
    assert (values["problem_count"], len(values["problems"]), values["requests"]) == (130, 100, 0)


def test_mixed_time_scales_are_a_problem_and_unknown_fields_a_note(trace, capsys):
    path = trace(lines(ROW, {**ROW, "timestamp": 1.7e12, "x": 1}))
    code, out, err = run(capsys, "validate", path)
    assert code == 2
    assert out.startswith(f"{path}:2: a time since 1970 of 1700000000000 ms") and out.count("\n") == 1
    assert err == f"note: {path}:2: unknown field 'x', ignored\n"


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path, capsys):
    code, out, _ = run(capsys, "validate", tmp_path / "no", "--format", "json")
    values = json.loads(out)
    assert (code, values["problems"]) == (2, [f"{tmp_path}/no: no such file"])


def test_reading_stops_at_the_first_problem_again_after_a_validation(trace, capsys):
    path = trace(lines({"x": 1}, {"x": 1}))
    run(capsys, "validate", path)
    code, _, err = run(capsys, "stats", path)
    assert (code, err.count("\n")) == (2, 1)


# convert ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in TRACE_FORMATS if name not in ("mooncake-delta", *GRAPHS)])
def test_a_converted_trace_is_the_same_trace(name, trace, tmp_path, capsys):
    path, output = trace(EXAMPLES[name]), tmp_path / "out.jsonl"
    code, out, _ = run(capsys, "convert", path, "--trace-format", name, "--output", output)
    original = load_trace([path], name)
    assert code == 0
    assert out.endswith(f" to {output}, trace_block_size {original.block_tokens}\n")
    again = load_trace([output], "mooncake", original.block_tokens)

    def shape(loaded):
        return [
            (
                s.arrival_ms,
                [(t.input_tokens, t.output_tokens, t.delay_ms, t.request_id, t.metadata) for t in s.turns],
            )
            for s in loaded.sessions
        ]

    assert shape(again) == shape(original)
    assert again.remarks == []
    content = [turn.block_ids for session in original.sessions for turn in session.turns]
    copies = [turn.block_ids for session in again.sessions for turn in session.turns]
    if content[0] is None:
        used = [content_id for ids in copies for content_id in ids]
        assert sorted(used) == list(range(len(used)))
    else:
        assert copies == content


def test_a_converted_trace_replays_alike(trace, tmp_path, capsys):
    """Planned outputs beside wide ids: content ids are renumbered when they are read, and stay so."""
    rows = [
        {**ROW, "output_token_ids": [0, 1], "hash_ids": [2**40, 7]},
        {**ROW, "timestamp": 90, "hash_ids": [2**40, 9]},
    ]
    path, output = trace(lines(*rows)), tmp_path / "out.jsonl"
    assert run(capsys, "convert", path, "--trace-block-size", 4, "--output", output)[0] == 0
    rank = {"num_gpu_blocks": 64, "block_size": 4, "timing_model": {"type": "polynomial"}}
    spec = {"topology": {"kind": "aggregated", "workers": {"initial_workers": 1}}, "engine": {"rank": rank}}
    records = [
        execute(
            {
                "spec": spec,
                "traffic": {"source_type": "trace", "trace_path": str(file), "trace_block_size": 4},
            }
        )
        for file in (path, output)
    ]
    assert records[0]["per_request"] == records[1]["per_request"]
    assert records[0]["per_request"][1]["reused_input_tokens"] == 4


def test_what_mooncake_rows_cannot_say_is_refused(trace, tmp_path, capsys):
    output = tmp_path / "out.jsonl"
    path = trace(lines(*SESSIONS))
    code, _, err = run(capsys, "convert", path, "--trace-format", "mooncake-delta", "--output", output)
    assert (code, err) == (
        2,
        "aisimulate trace convert: error: trace format 'mooncake-delta' cannot be converted: its prompts "
        "contain outputs, which have no content ids\n",
    )
    planned = [{**row, "output_token_ids": [1, 2]} for row in SESSIONS]
    code, _, err = run(capsys, "convert", trace(lines(*planned)), "--output", output)
    assert code == 2 and "output_token_ids of sessions whose rows are mixed" in err
    assert [file.name for file in tmp_path.iterdir()] == ["t"]


def test_a_file_is_overwritten_only_when_asked(trace, tmp_path, capsys):
    path, output = trace(lines(ROW)), trace("mine", "out.jsonl")
    code, out, err = run(capsys, "convert", path, "--output", output)
    assert (code, out) == (2, "")
    assert err == (
        f"aisimulate trace convert: error: --output {output}: exists already (--overwrite replaces it)\n"
    )
    assert output.read_text() == "mine"
    assert run(capsys, "convert", path, "--output", output, "--overwrite")[0] == 0
    assert json.loads(output.read_text()) == ROW
    code, _, err = run(capsys, "convert", path, "--output", path, "--overwrite")
    assert code == 2 and "would overwrite the input" in err


def test_a_bad_trace_leaves_nothing_and_replaces_nothing(trace, tmp_path, capsys):
    path, output = trace(lines(ROW, {"x": 1})), trace("mine", "out.jsonl")
    code, _, err = run(capsys, "convert", path, "--output", output, "--overwrite")
    assert (code, err.count("\n")) == (2, 1)
    assert output.read_text() == "mine"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.jsonl", "t"]


def test_rows_can_go_through_a_pipe(trace):
    path = trace(lines(ROW))
    command = [sys.executable, "-m", "aisimulate", "trace", "convert", str(path), "--output", "/dev/stdout"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (json.loads(done.stdout), done.stderr) == (ROW, "")


def test_convert_as_json(trace, tmp_path, capsys):
    output = tmp_path / "out.jsonl"
    path = trace(EXAMPLES["azure"])
    _, out, _ = run(
        capsys, "convert", path, "--trace-format", "azure", "--output", output, "--format", "json"
    )
    values = json.loads(out)
    assert (values["output"], values["output_trace_block_size"], values["requests"]) == (str(output), 512, 2)


# All of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "ACTION"),
        (["stat", "t"], "invalid choice: 'stat'"),
        (["stats"], "TRACE"),
        (["stats", "t", "--trace-format", "moncake"], "did you mean 'mooncake'?"),
        (["stats", "t", "--trace-block-size", "0"], "'0' is not a whole number >= 1"),
        (["stats", "t", "u"], "takes exactly one file, got 2"),
        (["stats", "nowhere"], "nowhere: no such file"),
        (["validate", "t", "--trace-format", "agentic"], "did you mean 'agentic_mooncake'?"),
        (["convert", "t"], "--output"),
        (["convert", "t", "--output", "nowhere/out"], "is not a directory"),
    ],
)
def test_a_bad_command_line_is_one_line(arguments, words, tmp_path, monkeypatch, capsys):
    (tmp_path / "t").write_text(lines(ROW))
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_an_agentic_trace_has_figures_but_no_duration(capsys):
    arguments = [
        "stats",
        str(TRACES / "plays.jsonl"),
        "--trace-format",
        "agentic_mooncake",
        "--format",
        "json",
    ]
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    figures = json.loads(out)
    assert (figures["requests"], figures["input_tokens"], figures["trace_block_size"]) == (6, 288, 16)
    assert (figures["duration_s"], figures["requests_per_s"]) == (None, None)
    assert figures["ideal_prefix_hit_ratio"] > 0.5


HEADER, *NODES = map(json.loads, (TRACES / "plays.jsonl").read_text().splitlines())
FLAT = {"request_id": "a", "input_length": 8, "output_length": 1, "hash_ids": [1]}
MANY_PROBLEMS = {
    "rows": (
        "agentic_mooncake",
        lines(HEADER, {**NODES[0], "model": ""}, *NODES[1:], {**NODES[1], "hash_ids": []}, 3),
        ["t.jsonl:2: model ''", "t.jsonl:8: hash_ids of length 0", "t.jsonl:9: a row must be"],
    ),
    "edges": (
        "agentic_mooncake",
        lines(HEADER, NODES[1], NODES[2], NODES[2]),
        ["t.jsonl:4: request_id 'A2': already", "t.jsonl:2: request 'A1'", "t.jsonl:3: request 'A2'"],
    ),
    "flat rows": (
        "agentic_mooncake",
        lines(FLAT, {**FLAT, "wait_for": 3}, {**FLAT, "delay": -1}),
        ["t.jsonl:2: wait_for 3", "t.jsonl:3: delay -1.0"],
    ),
    "sessions": (
        "applied_compute_agentic",
        lines({**TOOLS, "num_turns": 2}, TOOLS, {}),
        ["t.jsonl:1: assistant_response_length", "t.jsonl:3: num_turns is missing"],
    ),
    "plays": ("weka", lines({"id": "a"}, {}), ["t.jsonl:1: hash_id_scope", "t.jsonl:2: hash_id_scope"]),
}


@pytest.mark.parametrize("what", MANY_PROBLEMS)
def test_all_problems_of_an_agentic_trace_are_listed(what, trace, capsys):
    name, text, starts = MANY_PROBLEMS[what]
    path = trace(text, "t.jsonl")
    arguments = ["validate", path, "--trace-format", name, "--trace-block-size", 16, "--format", "json"]
    code, out, _ = run(capsys, *arguments)
    problems = [problem.replace(f"{path.parent}/", "") for problem in json.loads(out)["problems"]]
    assert code == 2
    assert len(problems) == len(starts)
    assert [problem[: len(start)] for problem, start in zip(problems, starts, strict=True)] == starts


def test_an_agentic_trace_is_not_converted(tmp_path, capsys):
    arguments = ["convert", str(TRACES / "plays.jsonl"), "--trace-format", "agentic_mooncake"]
    code, out, err = run(capsys, *arguments, "--output", str(tmp_path / "out"))
    assert (code, out) == (2, "")
    assert "Mooncake rows do not say which request waits for which" in err
    assert not (tmp_path / "out").exists()


def test_the_command_loads_only_what_it_needs():
    code = (
        "import sys\nimport aisimulate.cli.trace\n"
        "heavy = {'pandas', 'pydantic', 'rich', 'yaml', 'aiconfigurator_core'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("size", ["4294967296", "9" * 5000, "1_0", "٣", "0", "-1"])
def test_a_block_size_is_a_number_of_tokens(tmp_path, capsys, size):
    path = tmp_path / "t.jsonl"
    path.write_text(lines(ROW))
    with pytest.raises(SystemExit) as exit_info:
        main(["trace", "stats", str(path), "--trace-block-size", size])
    assert exit_info.value.code == 2
    error = capsys.readouterr().err
    assert "--trace-block-size" in error
    assert error.count("\n") == 1


def test_prompts_implied_by_their_blocks_are_bounded(tmp_path, capsys):
    path = tmp_path / "t.jsonl"
    path.write_text(lines({"timestamp": 0, "output_length": 2, "hash_ids": [1, 2]}))
    assert main(["trace", "validate", str(path), "--trace-block-size", "4294967295"]) == 2
    assert "input_length is missing" in capsys.readouterr().out


def test_times_closer_than_the_clock_ticks_have_no_rate(tmp_path, capsys):
    path = tmp_path / "t.jsonl"
    path.write_text(lines(ROW, {**ROW, "timestamp": 1e-320}))
    assert main(["trace", "stats", str(path), "--format", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["duration_s"] == 0.0
    assert summary["requests_per_s"] is None


def test_a_name_that_is_too_long_is_bad_input(tmp_path, capsys):
    path = tmp_path / "t.jsonl"
    path.write_text(lines(ROW))
    assert main(["trace", "convert", str(path), "--output", str(tmp_path / ("x" * 300))]) == 2
    assert "--output" in capsys.readouterr().err


def test_a_trace_beyond_memory_is_one_line(tmp_path, capsys, monkeypatch):
    def starve(*_):
        raise MemoryError

    monkeypatch.setattr("aisimulate.cli.trace.load_trace", starve)
    path = tmp_path / "t.jsonl"
    path.write_text(lines(ROW))
    assert main(["trace", "stats", str(path)]) == 1
    assert "does not fit into memory" in capsys.readouterr().err


# another format, a byte order mark ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["azure", "burstgpt", "bailian", "lengths", "dynamo"])
def test_another_format_is_recognised(name, trace, capsys):
    assumed = "azure" if name == "bailian" else "mooncake"  # a chat's rows are those of mooncake and more
    path = trace(EXAMPLES[name], "t.jsonl")
    code, _, err = run(capsys, "stats", path, "--trace-format", assumed)
    assert code == 2
    hint = f"(read as trace_format {assumed!r}, see --trace-format; the first rows fit {name!r})\n"
    assert err.endswith(hint)
    code, out, err = run(capsys, "validate", path, "--trace-format", assumed)
    assert code == 2
    assert hint.strip() in out + err


def test_a_format_that_nobody_knows_names_the_option(trace, capsys):
    _, _, err = run(capsys, "stats", trace("what is this\n"))
    assert err.endswith("(read as trace_format 'mooncake', see --trace-format)\n")


def test_a_wrong_row_in_a_trace_of_the_format_is_all_that_is_told(trace, capsys):
    _, _, err = run(capsys, "stats", trace(lines(*SESSIONS, {**ROW, "input_length": -1})))
    assert "trace_format" not in err and "input_length -1" in err


@pytest.mark.parametrize("name", TRACE_FORMATS)
def test_a_byte_order_mark_is_no_part_of_the_first_row(name, tmp_path, capsys):
    path = tmp_path / "t.jsonl"
    for packed in (bytes, gzip.compress) if name != "weka" else (bytes,):
        path.write_bytes(packed(b"\xef\xbb\xbf" + EXAMPLES[name].encode()))
        code, out, _ = run(capsys, "validate", path, "--trace-format", name)
        assert (code, out[:4]) == (0, "ok: ")
