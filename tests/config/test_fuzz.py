"""Whatever JSON comes in: it is accepted, or refused with one line."""

import copy
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from aisimulate.config.payload import Execution, parse_payload
from aisimulate.core.errors import InputError
from aisimulate.replay.capabilities import require_supported
from aisimulate.replay.traffic import inline_workload, session_count

from .payloads import POOL, REQUEST, SESSIONS, SYNTHETIC, TRACE, aic, disaggregated, rank, spec

SEEDS = [
    {"spec": aic(moe_tp_size=1, moe_ep_size=1, gpu_memory_utilization=0.9), "traffic": SYNTHETIC},
    {
        "spec": disaggregated(prefill={"rank": {}}, decode={"rank": {}}),
        "traffic": {**TRACE, "trace_format": "dynamo"},
    },
    {"spec": spec(requests=[REQUEST, {**REQUEST, "id": "q", "metadata": {"priority": 1}}])},
    {
        "spec": rank(
            backend="vllm",
            timing_model={"type": "fixed", "prefill_ms": 1.0, "decode_ms": 1.0},
            state_cache={"bytes_per_request": 1},
            num_gpu_blocks=9,
            block_size=2,
            kv_cache_bytes_per_token=1,
        ),
        "traffic": {**SESSIONS, "turns_per_session": 2, "load_type": "poisson", "request_rate": 3.0},
    },
    {
        "spec": spec(
            topology={"kind": "aggregated", "workers": {**POOL, "startup_delay_ms": 0}},
            adapters={"placement": {"provider": "round_robin"}, "scaling": {"provider": "none"}},
            sla={"ttft_ms": 1.0, "itl_ms": 2.0},
        ),
        "traffic": {**SYNTHETIC, "load_type": "kv_capacity_fraction", "kv_load_ratio": 0.5},
    },
]
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(["", "x", "a\nb", "vllm", "external", "\x00", "\u2028"])
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def _places(value, found):
    """Collect every container of a JSON value with the keys into it."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            _places(value[key], found)
    return found


def _mutate(data, document):
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(_places({"": document}, [])[1:]))
        action = data.draw(st.sampled_from(["replace", "remove", "rename", "add"]))
        if action == "replace" or isinstance(holder, list):
            holder[key] = data.draw(JUNK)
        elif action == "add":
            holder[data.draw(st.text(max_size=8))] = data.draw(JUNK)
        else:
            value = holder.pop(key)
            if action == "rename":
                holder[key[:-1] or "z"] = value
        if not document:
            return


def _check(call):
    try:
        call()
    except InputError as error:
        assert str(error).splitlines() == [str(error)]


def _resolve(execution):
    assert isinstance(execution, Execution)
    _check(lambda: require_supported(execution.spec, execution.traffic))
    if execution.traffic is None:
        _check(lambda: inline_workload(execution.spec))
    elif execution.traffic.source_type != "trace":
        _check(lambda: session_count(execution.traffic))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_mutated_payloads_are_accepted_or_refused_in_one_line(data):
    document = copy.deepcopy(data.draw(st.sampled_from(SEEDS)))
    _mutate(data, document)
    for payload in (document, json.dumps(document)):
        _check(lambda payload=payload: _resolve(parse_payload(payload)))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_mutated_text_is_accepted_or_refused_in_one_line(data):
    text = json.dumps(data.draw(st.sampled_from(SEEDS)))
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 5)))
    middle = data.draw(
        st.sampled_from(["", "NaN", "1e999", '"', "{", "]", "\\ud800", "-Infinity", ",", "9" * 500])
    )
    _check(lambda: _resolve(parse_payload(text[:start] + middle + text[stop:])))


@settings(max_examples=100, deadline=None)
@given(value=JUNK)
def test_any_value_at_the_top_is_handled(value):
    _check(lambda: parse_payload(value))
    _check(lambda: parse_payload(json.dumps(value)))


def test_the_unmutated_payloads_are_accepted():
    for document in SEEDS:
        assert parse_payload(json.dumps(document)).notes == parse_payload(document).notes
