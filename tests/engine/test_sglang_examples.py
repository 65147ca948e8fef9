"""SGLang against what the reference engine did: worked examples (spec 01 section 9), recorded replays."""

import json
from pathlib import Path

import pytest

from aisimulate.replay.execute import execute
from oracle.fleet import replay
from oracle.records import oracle_records, report_records

from .test_oracle_examples import ns, payload_of

DATA = Path(__file__).parents[1] / "data/engine"
EXAMPLES = json.loads((DATA / "sglang_examples.json").read_text())
RECORDED = [json.loads(line) for line in (DATA / "sglang_recorded.jsonl").read_text().splitlines()]
ENGINES = {
    "oracle": lambda payload: oracle_records(replay(payload)),
    "production": lambda payload: report_records(execute(payload)),
}
# What the reference aborts on, we reject: these are the instants and reasons.
REJECTED_INSTEAD = {"E56": (0, "sequence_exceeds_kv_capacity")}


def outcome(record: dict) -> list:
    names = ("arrival", "input", "emitted", "status", "first_token", "last_token", "terminal", "scheduler")
    return [*(record[name] for name in names), [list(entry) for entry in record["admissions"]]]


def in_order(outcomes: list) -> list:
    return sorted(outcomes, key=lambda row: (row[0], row[1], row[2], row[6], row[7]))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "case", [case for case in EXAMPLES if "error" not in case], ids=lambda case: case["name"][:3]
)
def test_worked_example(case: dict, engine: str, tmp_path: Path) -> None:
    records = ENGINES[engine](payload_of(case, tmp_path)).values()
    wanted = [
        [
            ns(want["arrival_time_ms"]),
            want["input_length"],
            want["output_length"],
            want["terminal_status"],
            *(ns(want.get(name)) for name in ("first_token_ms", "last_token_ms", "terminal_time_ms")),
            0,
            [[ns(at_ms), reused] for at_ms, reused in want["admissions"]],
        ]
        for want in case["expect"]
    ]
    assert in_order([outcome(record) for record in records]) == in_order(wanted)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "case", [case for case in EXAMPLES if "error" in case], ids=lambda case: case["name"][:3]
)
def test_rejects_what_the_reference_aborts_on(case: dict, engine: str, tmp_path: Path) -> None:
    (record,) = ENGINES[engine](payload_of(case, tmp_path)).values()
    assert (record["terminal"], record["reason"]) == REJECTED_INSTEAD[case["name"][:3]]
    assert record["status"] == "rejected"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["name"])
def test_recorded_replay(case: dict, engine: str, tmp_path: Path) -> None:
    names = ("timestamp", "input_length", "output_length", "hash_ids")
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in case["rows"]))
    spec = {
        "version": 1,
        "topology": {"kind": "aggregated", "workers": {"initial_workers": case["workers"]}},
        "engine": {"dp_size": case["dp_size"], "tensor_parallel_size": 1, "rank": case["rank"]},
        "record_per_request": True,
        "requests": [],
    }
    payload = {"spec": spec, "traffic": case["traffic"] | {"trace_paths": [str(path)]}}
    assert in_order([outcome(record) for record in ENGINES[engine](payload).values()]) == case["records"]


def test_examples_and_recordings_are_complete() -> None:
    assert [case["name"][:3] for case in EXAMPLES] == ["E27", "E29", "E30", "E36", "E56"]
    assert len(RECORDED) > 30
    retracted = [case for case in RECORDED if any(len(record[-1]) > 1 for record in case["records"])]
    assert len(retracted) > 20
