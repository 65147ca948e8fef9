"""The JSON facade: a report or a RuntimeError of one line, whatever comes in."""

import json

import numpy as np
import pytest

from aisimulate import _runtime
from aisimulate._runtime import run_replay_json
from aisimulate.replay import execute as execute_module
from aisimulate.replay.execute import execute

REQUEST = {"id": "r", "arrival_time_ms": 0, "input_tokens": 8, "output_tokens": 2}
SYNTHETIC = {"source_type": "synthetic", "isl": 8, "osl": 2, "request_count": 2}
AIC = {"model": "Qwen/Qwen3-8B", "backend": "vllm", "system": "h200_sxm", "tp": 1}


def spec(requests=(REQUEST,), **rank):
    topology = {"kind": "aggregated", "workers": {"initial_workers": 1}}
    return {"topology": topology, "engine": {"rank": rank}, "requests": list(requests)}


def failure(payload):
    with pytest.raises(RuntimeError) as caught:
        run_replay_json(payload if isinstance(payload, str) else json.dumps(payload))
    text = str(caught.value)
    assert type(caught.value) is RuntimeError
    assert text.splitlines() == [text]
    return text.removeprefix("AISimulate replay failed: ")


def nested(depth):
    value = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("metadata", [{"x": 10**30, "y": "\u00e9"}, {"x": -(2**63) - 1}, nested(90)])
def test_metadata_is_echoed(metadata):
    report = json.loads(run_replay_json(json.dumps(spec([{**REQUEST, "metadata": metadata}]))))
    assert report["per_request"][0]["metadata"] == metadata


def test_metadata_that_is_too_deep_is_refused():
    assert failure(spec([{**REQUEST, "metadata": nested(500)}])) == (
        "payload is not usable JSON: nested more than 100 deep"
    )


def test_half_of_a_surrogate_pair_is_refused_raw_and_escaped():
    text = json.dumps(spec([{**REQUEST, "id": "\ud800"}]), ensure_ascii=False)
    problem = "payload is not usable JSON: half of a surrogate pair in a string"
    assert failure(text) == failure(json.dumps(json.loads(text))) == problem


@pytest.mark.parametrize(
    ("rank", "problem"),
    [
        ({"speedup_ratio": 5e-324}, "spec.engine.rank.speedup_ratio: 4.94066e-324 is not 0 (unscaled) or"),
        (
            {"speedup_ratio": 1e-5, "decode_speedup_ratio": 1e-5},
            "spec.engine.rank.decode_speedup_ratio: 1e-05 times speedup_ratio gives 1e-10",
        ),
    ],
)
def test_speedups_out_of_range_are_refused(rank, problem):
    assert failure(spec(**rank)).startswith(problem)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_replay_that_outlasts_the_clock_is_refused(workers):
    payload = spec(timing_model={"type": "fixed", "prefill_ms": 9e12, "decode_ms": 1})
    payload["topology"]["workers"]["initial_workers"] = workers
    problem = "requests remain at 4.61169e+12 ms, where the clock ends"
    assert failure(payload).startswith(problem)
    assert failure({**payload, "max_in_flight": 1}).startswith(problem)


def test_a_limit_before_the_end_of_the_clock_ends_the_replay():
    payload = spec(timing_model={"type": "fixed", "prefill_ms": 9e12, "decode_ms": 1})
    assert execute({**payload, "max_sim_time_ms": 5})["unfinished_requests"] == 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (MemoryError("Unable to allocate 7 TiB"), "out of memory: the replay needs more than"),
        (OverflowError("int too large"), "a time or count grew beyond 64 bits"),
        (KeyError("x\ny"), "unexpected KeyError: 'x\\ny'"),
    ],
)
def test_whatever_goes_wrong_inside_is_a_runtime_error(monkeypatch, error, text):
    def fail(*_args):
        raise error

    monkeypatch.setattr(execute_module, "build_replay", fail)
    assert failure(spec()).startswith(text)


def test_a_report_too_large_to_write_is_a_runtime_error(monkeypatch):
    def fail(_report):
        raise MemoryError

    monkeypatch.setattr(_runtime, "_text", fail)
    assert failure(spec()) == "out of memory for the report"


def test_a_real_shortage_of_memory_is_reported(monkeypatch):
    monkeypatch.setattr(execute_module, "build_report", lambda *_, **__: np.empty(1 << 50))
    assert failure(spec()).startswith("out of memory")


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"tp": 2}, ": AIC tp=2 does not match engine tensor_parallel_size=1"),
        ({"model": "no/such"}, ".model: 'no/such' is not bundled"),
        ({"model": "x" * 5000}, ".model: 'xxx"),
        ({"model": "./a\0b"}, ".model: './a\\x00b' is not a folder that holds a config.json"),
        ({"system": "h20"}, ".system: 'h20' must be one of"),
        ({"backend_version": "9"}, ".backend_version: '9' is not available"),
        ({"systems_path": "/nope"}, ".systems_path: '/nope' is not a folder"),
        ({"systems_path": ""}, ".systems_path: '' is not a folder"),
    ],
)
def test_an_aic_setting_is_named_by_its_path(config, problem):
    timing = {"type": "external", "provider": "aic", "config": {**AIC, **config}}
    text = failure(spec(timing_model=timing))
    assert text.startswith(f"spec.engine.rank.timing_model.config{problem}")
    assert len(text) < 600


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"load_type": "poisson", "request_rate": 1e-300},
            "traffic.request_rate: the last session would start",
        ),
        ({"num_prefix_groups": 2**33}, "traffic.num_prefix_groups: "),
        ({"source_type": "synthetic-session", "turns_per_session": 2**33}, "traffic.turns_per_session: "),
    ],
)
def test_a_traffic_setting_is_named_by_its_path(fields, problem):
    assert failure({"spec": spec(), "traffic": {**SYNTHETIC, **fields}}).startswith(problem)


def test_a_prompt_beside_spelled_ones_is_not_spelled_without_limit():
    spelled = {**REQUEST, "id": "s", "input_token_ids": list(range(8))}
    assert failure(spec([spelled, {**REQUEST, "input_tokens": 2**32 - 1}])) == (
        "spec.requests[1].input_tokens 4294967295: must be a whole number from 1 to 10000000"
    )


@pytest.mark.parametrize(
    "payload",
    [
        {"spec": {**spec(), "x" * 10**6: 1}, "traffic": {**SYNTHETIC, "isl": [["y" * 10**6]] * 1000}},
        {"spec": spec(**{"z\n" * 10**5: 1})},
        {"spec": spec(), "traffic": {"source_type": "trace", "trace_path": "p\n" * 10**4}},
        {"spec": spec([{**REQUEST, "id": "i\n" * 10**5}] * 2)},
    ],
)
def test_messages_stay_short(payload):
    assert len(failure(payload)) < 1000
