"""The `simulate` command: formats, files, and that every complaint is one line."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from aisimulate.cli.main import main
from aisimulate.core.errors import InvariantError

SPEC = {
    "version": 1,
    "record_per_request": False,
    "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
    "engine": {
        "dp_size": 1,
        "tensor_parallel_size": 1,
        "rank": {
            "num_gpu_blocks": 64,
            "block_size": 4,
            "max_num_seqs": 4,
            "max_num_batched_tokens": 64,
            "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0},
        },
    },
    "requests": [
        {"id": "a", "arrival_time_ms": 0, "input_tokens": 8, "output_tokens": 3},
        {"id": "b", "arrival_time_ms": 4, "input_tokens": 8, "output_tokens": 2},
    ],
}
REAL_TIME = re.compile(r"in [\d.]+ s,")


@pytest.fixture
def simulate(tmp_path, capsys):
    """Run the command on a payload; return (exit code, stdout, stderr)."""

    def run(*options, payload=SPEC, name="payload.json"):
        path = tmp_path / name
        if isinstance(payload, bytes):
            path.write_bytes(payload)
        else:
            path.write_text(
                payload
                if isinstance(payload, str)
                else yaml.safe_dump(payload)
                if name.endswith("ml")
                else json.dumps(payload)
            )
        code = main(["simulate", "--payload", str(path), *map(str, options)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def simulated_part(report):
    return {key: value for key, value in report.items() if "wall" not in key and "tokens_per_s" not in key}


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_table_is_aligned_and_complete(simulate):
    code, out, err = simulate()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    table = lines[: lines.index("")]
    assert len({len(line) for line in table}) == 1
    assert table[0].split() == ["Metric", "avg", "min", "max", "p99", "p90", "p75", "std"]
    cells = {line[:28].strip(): line[28:].split() for line in table[2:]}
    assert cells["Time to first token (ms)"] == [
        "15.50",
        "10.00",
        "21.00",
        "21.00",
        "21.00",
        "21.00",
        "5.50",
    ]
    assert cells["Completed requests"] == ["2", *["N/A"] * 6]
    assert "Goodput (tokens/s)" not in cells
    assert lines[len(table) + 1] == "2 requests arrived, 0 rejected, 0 unfinished"
    assert (
        REAL_TIME.sub("in .. s,", lines[len(table) + 2]) == "0.030 s simulated in .. s, 8.333e-06 GPU hours"
    )


def test_goodput_rejections_and_notes_are_shown(simulate):
    requests = [*SPEC["requests"], {"id": "c", "arrival_time_ms": 5, "input_tokens": 400, "output_tokens": 1}]
    payload = SPEC | {"sla": {"ttft_ms": 12.0}, "requests": requests, "colour": 1}
    _, out, _ = simulate(payload=payload)
    assert re.search(r"^Good requests +1 ", out, re.MULTILINE)
    assert "rejected: 1 because prompt_exceeds_kv_capacity" in out
    assert "note: spec.colour: unknown field, ignored" in out


def test_json_is_the_report(simulate):
    code, out, _ = simulate("--format", "json")
    report = json.loads(out)
    assert (code, report["completed_requests"], report["duration_ms"]) == (0, 2, 30.0)
    assert "per_request" not in report


@pytest.mark.parametrize("name", ["payload.yaml", "payload.yml"])
def test_a_payload_may_be_yaml(simulate, name):
    payload = {"spec": SPEC | {"requests": []}, "traffic": {"isl": 8, "osl": 2, "request_count": 3}}
    payload["traffic"] |= {"source_type": "synthetic", "load_type": "concurrency", "concurrency": 1}
    from_yaml = simulate("--format", "json", payload=payload, name=name)
    from_json = simulate("--format", "json", payload=payload)
    assert json.loads(from_yaml[1])["completed_requests"] == 3
    assert from_yaml[1].partition("wall")[0] == from_json[1].partition("wall")[0]


@pytest.mark.parametrize("wrapped", [True, False])
def test_records_go_to_a_file_and_not_to_the_report(simulate, tmp_path, wrapped):
    out = tmp_path / "requests.jsonl"
    payload = {"spec": SPEC} if wrapped else SPEC
    _, text, _ = simulate("--per-request", out, "--format", "json", payload=payload)
    assert [record["request_id"] for record in lines_of(out)] == ["a", "b"]
    assert "per_request" not in json.loads(text)


@pytest.mark.parametrize("asked", [{"record_per_request": True}, {}])
def test_records_that_the_payload_asks_for_stay_in_the_report(simulate, tmp_path, asked):
    payload = {key: value for key, value in SPEC.items() if key != "record_per_request"} | asked
    out = tmp_path / "requests.jsonl"
    _, text, _ = simulate("--per-request", out, "--format", "json", payload=payload)
    assert json.loads(text)["per_request"] == lines_of(out)


def test_telemetry_goes_to_a_file(simulate, tmp_path):
    out = tmp_path / "telemetry.jsonl"
    simulate("--telemetry", out, "--telemetry-interval-ms", "12")
    assert [sample["sampled_at_ms"] for sample in lines_of(out)] == [0.0, 12.0, 24.0, 30.0]
    simulate("--telemetry", out)
    assert [sample["sampled_at_ms"] for sample in lines_of(out)] == [0.0, 30.0]


@pytest.mark.parametrize("interval", [[], ["--telemetry-interval-ms", "50"]])
def test_too_many_samples_are_one_line_and_no_file(simulate, tmp_path, interval):
    late = SPEC | {"requests": [{**SPEC["requests"][0], "arrival_time_ms": 1.7e12}]}
    out, records = tmp_path / "telemetry.jsonl", tmp_path / "records.jsonl"
    code, text, err = simulate("--telemetry", out, "--per-request", records, *interval, payload=late)
    assert (code, text, err.count("\n")) == (2, "", 1)
    assert err.startswith("aisimulate simulate: error: --telemetry-interval-ms: ")
    assert err.endswith(", more than 1,000,000; try 200000000\n")
    assert not out.exists()
    assert not records.exists()


def test_a_timeline_goes_to_a_file(simulate, tmp_path):
    out = tmp_path / "timeline.json"
    simulate("--timeline", out)
    assert json.loads(out.read_text())["otherData"] == {"requests": 2, "request_stride": 1}


def test_watching_changes_nothing(simulate, tmp_path):
    watched = [f"--{name}" for name in ("per-request", "telemetry", "timeline")]
    options = [part for option in watched for part in (option, tmp_path / f"{option}.out")]
    seen = simulate("--format", "json", "--check", *options)
    plain = simulate("--format", "json")
    keep = {
        key: value for key, value in json.loads(plain[1]).items() if "wall" not in key and "_per_s" not in key
    }
    assert {key: json.loads(seen[1])[key] for key in keep} == keep


def test_a_broken_invariant_fails_the_command(simulate, monkeypatch, tmp_path):
    def broken(*_):
        raise InvariantError("I2 broken (..): request 1 (a): emitted 2 tokens of 3 due")

    monkeypatch.setattr("aisimulate.replay.invariants.checker.check_tokens", broken)
    out = tmp_path / "requests.jsonl"
    assert simulate("--per-request", out)[0] == 0
    out.unlink()
    code, text, err = simulate("--check", "--per-request", out)
    assert (code, text, out.exists()) == (1, "", False)
    assert err == "aisimulate simulate: error: I2 broken (..): request 1 (a): emitted 2 tokens of 3 due\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--telemetry-interval-ms", "5"], "--telemetry-interval-ms has no effect without --telemetry"),
        (["--telemetry", "{}/t", "--telemetry-interval-ms", "0"], "error: --telemetry-interval-ms: 0 ms is"),
        (["--telemetry", "{}/t", "--telemetry-interval-ms", "x"], "invalid float value: 'x'"),
        (["--timeline", "{}/t", "--per-request", "{}/t"], "is the file of --per-request too"),
        (["--timeline", "{}/missing/t"], "missing is not a directory"),
        (["--timeline", "{}/payload.json"], "would overwrite the input"),
        (["--format", "xml"], "invalid choice: 'xml'"),
    ],
)
def test_bad_options_are_one_line(simulate, tmp_path, capsys, options, words):
    try:
        code, _, err = simulate(*(option.format(tmp_path) for option in options))
    except SystemExit as stop:
        code, err = stop.code, capsys.readouterr().err
    assert (code, err.count("\n")) == (2, 1)
    assert words in err
    assert json.loads((tmp_path / "payload.json").read_text()) == SPEC


@pytest.mark.parametrize(
    ("payload", "name", "words"),
    [
        ("{", "p.json", "p.json' is not JSON: "),
        ("[1]", "p.json", "expected an object with spec and traffic"),
        ("a: [", "p.yaml", "malformed YAML in payload"),
        (b"\xff", "p.json", "is not UTF-8 text: byte 0"),
        (b'{"spec": \0', "p.json", "is not text: byte 9 is NUL"),
        ('{"spec": 3}', "p.json", "spec: 3 is not an object"),
        ('{"version": 1, "requests": []}', "p.json", "spec."),
        (json.dumps(SPEC | {"record_per_request": 3}), "p.json", "spec.record_per_request: 3"),
    ],
)
def test_bad_payloads_are_one_line(simulate, tmp_path, payload, name, words):
    code, out, err = simulate("--per-request", tmp_path / "out", payload=payload, name=name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("named", [{"trace_path": "{}/t.jsonl"}, {"trace_paths": ["{}/t.jsonl"]}])
def test_a_trace_is_not_written_over(simulate, tmp_path, named):
    trace = tmp_path / "t.jsonl"
    trace.write_text('{"timestamp": 0, "input_length": 8, "output_length": 2, "hash_ids": [1]}\n')
    traffic = json.loads(json.dumps({"source_type": "trace"} | named).replace("{}", str(tmp_path)))
    code, _, err = simulate(
        "--telemetry", trace, payload={"spec": SPEC | {"requests": []}, "traffic": traffic}
    )
    assert (code, err.count("\n")) == (2, 1)
    assert "--telemetry" in err
    assert "would overwrite the input" in err


def test_a_missing_payload_is_named(tmp_path, capsys):
    assert main(["simulate", "--payload", str(tmp_path / "none.json")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_payload_beyond_memory_is_one_line(simulate, monkeypatch):
    def starve(_):
        raise MemoryError

    monkeypatch.setattr("aisimulate.cli.simulate._run", starve)
    code, out, error = simulate()
    assert (code, out) == (1, "")
    assert error.count("\n") == 1
    assert "needs more memory than there is" in error


def test_decisions_of_a_planner_go_to_a_file_of_their_own(simulate, tmp_path):
    out = tmp_path / "decisions.jsonl"
    late = [*SPEC["requests"], {"id": "c", "arrival_time_ms": 20_000, "input_tokens": 8, "output_tokens": 2}]
    scaled = SPEC | {"adapters": {"scaling": {"provider": "planner"}}, "requests": late}
    code, text, _ = simulate("--decisions", out, "--format", "json", payload=scaled)
    decisions = [json.loads(line) for line in out.read_text().splitlines()]
    assert code == 0
    assert [one["at_ms"] for one in decisions] == [5000, 10_000, 15_000, 20_000]
    assert not {"per_request", "scaling_decisions", "lifecycle_operations"} & json.loads(text).keys()
    assert "scaling: 4 decisions, 1 GPUs on average" in simulate(payload=scaled)[1]


@pytest.mark.parametrize("adapters", [{}, {"scaling": {"provider": "none"}}])
def test_nobody_decides_in_a_fixed_fleet(simulate, tmp_path, adapters):
    code, _, err = simulate("--decisions", tmp_path / "d", payload=SPEC | {"adapters": adapters})
    assert (code, err.count("\n")) == (2, 1)
    assert "--decisions: has no effect without a policy in spec.adapters.scaling" in err
    assert not (tmp_path / "d").exists()


def test_rows_of_the_engine_are_marked_beside_those_of_clients(simulate):
    marked = "Inter-token latency per gap (ms) [engine]"
    _, plain, _ = simulate()
    assert "[engine]" not in plain
    _, out, _ = simulate(payload={**SPEC, "frontend": {"ttft_offset_ms": 20.0}})
    assert out.count("[engine]") == 3
    assert marked in out
    assert "as clients see them, those marked [engine] as the engine has them" in out
