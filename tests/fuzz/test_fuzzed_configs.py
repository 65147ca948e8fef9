"""Five hundred broken search files and payloads: each is one line that names a field, or it loads.

The files are valid ones in which values were swapped for others, fields were added, renamed or taken out, or
the text itself was torn.
"""

from __future__ import annotations

import copy

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aisimulate.cli import simulate, spica
from aisimulate.cli.main import COMMANDS, main
from aisimulate.core.errors import InputError
from tests.api.test_api import PAYLOAD, SEARCH

FUZZED = settings(
    max_examples=500,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
LINEAR = {
    "type": "linear",
    "constant_ms": 6.0,
    "prefill_token_ms": 0.02,
    "decode_ms": 0.1,
    "context_token_ms": 0.0001,
}
RANK = {
    "backend": "vllm",
    "num_gpu_blocks": 200,
    "block_size": 16,
    "timing_model": LINEAR,
    "scheduling_look_ahead": 0,
    "prefill_scale": 1.1,
    "kv_cache_bytes_per_token": 1000,
    "native_host_offload": {"num_host_blocks": 50, "d2h_bandwidth_gbps": 1.0},
}
ENGINE = {"tensor_parallel_size": 1, "dp_size": 1, "rank": RANK}
POOL = {"initial_workers": 1, "startup_delay_ms": 10.0}
RATE = PAYLOAD["traffic"] | {"load_type": "poisson", "request_rate": 20.0, "arrival_seed": 1}
del RATE["concurrency"]
ROUTER = {"provider": "kv_router", "config": {"prefill_load_scale": 2.0, "router_temperature": 0.1}}
PLANNER = {
    "provider": "planner",
    "config": {
        "optimization_target": "sla",
        "ttft_ms": 100.0,
        "load_predictor": "constant",
        "throughput_adjustment_interval_seconds": 0.5,
        "load_adjustment_interval_seconds": 0.1,
    },
}
AGGREGATED = {"kind": "aggregated", "workers": POOL}
PAIR = {"kind": "disaggregated", "prefill": POOL, "decode": POOL}
TYPED = ("--config", "--set", "-", "last", "best", "--to", "--payload", "-o", "--engine", "--table", "show")
PAYLOADS = {
    "plain": PAYLOAD,
    "routed": {
        "spec": {"topology": AGGREGATED, "engine": ENGINE, "adapters": {"placement": ROUTER}},
        "traffic": RATE,
    },
    "scaled": {
        "spec": {"topology": AGGREGATED, "engine": ENGINE, "adapters": {"scaling": PLANNER}},
        "traffic": RATE,
    },
    "pair": {
        "spec": {
            "topology": PAIR,
            "engine": {"prefill": ENGINE, "decode": {"rank": {"block_size": 16, "timing_model": LINEAR}}},
            "frontend": {"stream_interval": 4, "ttft_offset_ms": 1.0},
            "sla": {"ttft_ms": 50.0, "itl_ms": 10.0},
        },
        "traffic": PAYLOAD["traffic"],
    },
}
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["", " ", "vllm", "agg", "null", "~", "../..", "\u202e", "1e400", "${HOME}", "0x10", "\x1b[2J"]
    ),
    st.lists(st.one_of(st.none(), st.integers(-3, 3), st.text(max_size=4)), max_size=3),
    st.dictionaries(st.text(max_size=6), st.integers(-3, 3), max_size=2),
)


def places(document, path=()):
    """Every place of a document, as a path of names and numbers."""
    yield path
    pairs = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for name, value in pairs:
        yield from places(value, (*path, name))


def drawn_place(document, data):
    """A place of a document that is not its top: what holds it, and its name or number there."""
    path = data.draw(st.sampled_from([found for found in places(document) if found]), "where")
    for name in path[:-1]:
        document = document[name]
    return document, path[-1]


def changed(document, data):
    """A copy with one to three changes."""
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3), "changes")):
        parent, name = drawn_place(document, data)
        kind = data.draw(st.sampled_from(["replace", "remove", "rename", "add"]), "how")
        if kind == "remove":
            del parent[name]
        elif kind == "replace" or not isinstance(parent, dict):
            parent[name] = data.draw(ODD, "value")
        elif kind == "rename":
            parent[data.draw(st.text(min_size=1, max_size=8), "name")] = parent.pop(name)
        else:
            parent[data.draw(st.text(min_size=1, max_size=8), "name")] = data.draw(ODD, "value")
        if not [found for found in places(document) if found]:
            break
    return document


def one_printable_line(text):
    assert text
    assert "\n" not in text
    assert "Traceback" not in text
    assert text.isprintable(), repr(text)


@FUZZED
@given(data=st.data())
def test_a_changed_search_loads_or_is_one_line(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    path.write_text(yaml.safe_dump(changed(SEARCH, data)))
    try:
        spica.load_config(path)
    except InputError as error:
        one_printable_line(str(error))
        named = ("search_space", "workload", "goal", "sweep", "YAML", "config")
        assert any(name in str(error) for name in named), str(error)


@FUZZED
@given(data=st.data())
def test_a_changed_payload_runs_or_is_one_line(tmp_path_factory, capsys, data):
    path = tmp_path_factory.getbasetemp() / "fuzzed_payload.yaml"
    document = changed(PAYLOADS[data.draw(st.sampled_from(sorted(PAYLOADS)), "payload")], data)
    path.write_text(yaml.safe_dump(document))
    traffic = document.get("traffic")
    numbers = (
        [value for value in traffic.values() if isinstance(value, int | float)]
        if isinstance(traffic, dict)
        else []
    )
    if any(abs(value) > 5000 for value in numbers):
        return  # legal and large: it would run for long
    code = simulate.main(["--payload", str(path)])
    captured = capsys.readouterr()
    assert code in (0, 1, 2)
    assert "Traceback" not in captured.err
    if code:
        assert captured.err.count("\n") == 1, captured.err
        one_printable_line(captured.err.rstrip("\n"))


@FUZZED
@given(cut=st.integers(0, 400), noise=st.text(max_size=6))
def test_a_torn_file_is_one_line(tmp_path_factory, cut, noise):
    path = tmp_path_factory.getbasetemp() / "torn.yaml"
    text = yaml.safe_dump(SEARCH)
    path.write_text(text[:cut] + noise + text[cut + 1 :], encoding="utf-8", errors="surrogatepass")
    try:
        spica.load_config(path)
    except InputError as error:
        one_printable_line(str(error))


@FUZZED
@given(
    words=st.lists(
        st.one_of(st.text(max_size=8), st.sampled_from([*sorted(COMMANDS), *TYPED])),
        max_size=4,
    )
)
def test_any_command_line_is_one_line(tmp_path_factory, monkeypatch, capsys, words):
    """Nothing that is typed makes a traceback; only a help text is longer than a line."""
    if words and words[0] in ("perf", "doctor", "init"):
        return
    monkeypatch.setenv("AISIMULATE_RUNS", str(tmp_path_factory.getbasetemp() / "no runs"))
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code
    except ValueError as error:
        pytest.fail(f"{words}: {error}")
    captured = capsys.readouterr()
    assert code in (0, 1, 2)
    if code:
        assert captured.err.count("\n") == 1, captured.err
