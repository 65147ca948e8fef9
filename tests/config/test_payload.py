"""The two forms of a payload, strict JSON, and the rules that tie spec and traffic together."""

import json
from pathlib import Path

import pytest

from aisimulate.config.payload import parse_payload
from aisimulate.core.errors import InputError, UnsupportedError
from aisimulate.replay.capabilities import require_supported
from aisimulate.replay.traffic import build_workload
from aisimulate.workload.driver import SessionDriver

from .payloads import REQUEST, SESSIONS, SYNTHETIC, TRACE, aic, disaggregated, parse, rank, refused, spec

CASES = json.loads((Path(__file__).parents[1] / "data/config/seed_payloads.json").read_text())
NAMES = [case["name"] for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_recorded_payloads_are_accepted_or_refused_like_by_the_peer(case, tmp_path):
    payload = _with_traces(case, tmp_path)
    if case["peer_error"] is None:
        assert parse_payload(payload).traffic is not None
        return
    with pytest.raises(InputError) as caught:
        _prepare(payload)
    # A wrong input is called wrong, not "not supported yet".
    assert not isinstance(caught.value, UnsupportedError)


def _with_traces(case, tmp_path):
    payload = case["payload_json"]
    for index, rows in enumerate(case["traces"]):
        path = tmp_path / f"{index}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        payload = payload.replace(f"<trace{index}>", str(path))
    return payload


def _prepare(payload):
    execution = parse_payload(payload)
    require_supported(execution.spec, execution.traffic)
    SessionDriver(build_workload(execution.traffic, 4, execution.spec.max_in_flight), 4)


def test_both_forms_and_both_types_give_the_same_spec():
    bare = spec(requests=[REQUEST], max_in_flight=2)
    forms = [json.dumps(bare), bare, json.dumps({"spec": bare}), {"spec": bare, "traffic": None}]
    executions = [parse_payload(form) for form in forms]
    assert all(execution == executions[0] for execution in executions)
    assert executions[0].traffic is None
    assert executions[0].spec.max_in_flight == 2
    assert executions[0].spec.record_per_request is True


def test_null_objects_are_defaults_and_the_authored_engine_is_kept():
    execution = parse(spec(engine=None, adapters=None, sla=None))
    assert execution.engine == {}
    assert execution.spec.engine.rank.num_gpu_blocks == 16384
    assert execution.spec.adapters.placement.provider == "round_robin"
    assert parse(rank(num_gpu_blocks=7)).engine == {"rank": {"num_gpu_blocks": 7}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "payload is not JSON: Expecting value at line 1 column 1"),
        ('{"a":\n 1 2}', "payload is not JSON: Expecting ',' delimiter at line 2 column 4"),
        ("[1]", "payload: [1] is not an object"),
        ("null", "payload: null is not an object"),
        ('{"spec": 3}', "spec: 3 is not an object"),
        ('{"traffic": {}}', "spec: missing (required beside traffic)"),
        ('{"spec": {"version": 1, "version": 1}}', "payload: duplicate key 'version'"),
        (
            '{"spec": {"max_sim_time_ms":\n  NaN}}',
            "payload: max_sim_time_ms: NaN is not a finite JSON number at line 2 column 3",
        ),
        ('{"a": [-Infinity]}', "payload: a: -Infinity is not a finite JSON number at line 1 column 8"),
        ('["NaN", NaN]', "payload: NaN is not a finite JSON number at line 1 column 9"),
        ("[NaNx]", "payload: NaN is not a finite JSON number"),
        ('{"a": 1e999}', "payload: a: 1e999 is not a finite JSON number at line 1 column 7"),
        ("1" * 5000, f"payload: {'1' * 37}... is not a finite JSON number at line 1 column 1"),
        ("[" * 100_000, "payload is not usable JSON: nested more than 100 deep"),
        ('{"a":' * 101 + "1" + "}" * 101, "payload is not usable JSON: nested more than 100 deep"),
        ('{"spec": "\\ud800"}', "payload is not usable JSON: half of a surrogate pair in a string"),
        ('{"spec": "\ud800"}', "payload is not usable JSON: half of a surrogate pair in a string"),
        ("{}", "spec.topology: missing (required)"),
    ],
)
def test_broken_json_is_refused_with_its_place(text, message):
    assert refused(parse_payload, text) == message


def test_a_hundred_levels_are_read():
    assert refused(parse_payload, "[" * 100 + "]" * 100).endswith("is not an object")


def test_a_full_surrogate_pair_is_fine():
    text = json.dumps({"spec": spec(requests=[{**REQUEST, "id": "\U0001f600"}])})
    assert "\\ud83d" in text
    assert parse_payload(text).spec.requests[0].id == "\U0001f600"


@pytest.mark.parametrize("value", [3, None, b"{}", ["spec"]])
def test_other_payload_types_are_refused(value):
    assert refused(parse_payload, value).startswith("payload: ")


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        (None, "spec.requests: missing (required without traffic)"),
        ([], "spec.requests: empty, and there is no traffic"),
    ],
)
def test_without_traffic_there_must_be_requests(requests, message):
    authored = spec() if requests is None else spec(requests=requests)
    assert refused(parse_payload, {"spec": authored}) == message


@pytest.mark.parametrize(
    ("spec_value", "traffic", "message"),
    [
        (
            spec(),
            {**SYNTHETIC, "max_sim_time_ms": 5},
            "traffic.max_sim_time_ms: 5 must equal spec.max_sim_time_ms, which is not set",
        ),
        (
            spec(max_sim_time_ms=6.5),
            {**SYNTHETIC, "max_sim_time_ms": 5},
            "traffic.max_sim_time_ms: 5 must equal spec.max_sim_time_ms, which is 6.5",
        ),
        (
            spec(max_in_flight=3),
            {**SYNTHETIC, "concurrency": 2},
            "spec.max_in_flight: 3 contradicts the traffic's cap 2",
        ),
        (
            spec(max_in_flight=3),
            {**TRACE, "replay_concurrency": 2},
            "spec.max_in_flight: 3 contradicts the traffic's cap 2",
        ),
        (
            spec(max_in_flight=3),
            {**SYNTHETIC, "load_type": "kv_capacity_fraction", "kv_load_ratio": 1},
            "spec.max_in_flight: 3 has no effect with load_type 'kv_capacity_fraction'",
        ),
    ],
)
def test_limits_given_twice_must_agree(spec_value, traffic, message):
    assert refused(parse, spec_value, traffic) == message


def test_equal_limits_are_accepted():
    execution = parse(
        spec(max_sim_time_ms=5, max_in_flight=2), {**SYNTHETIC, "max_sim_time_ms": 5, "concurrency": 2}
    )
    assert execution.notes == ()


@pytest.mark.parametrize(
    ("document", "notes"),
    [
        (
            {"spec": {**spec(), "max_in_flght": 3, "x\n": 1}, "traffic": SYNTHETIC, "seed": 1},
            (
                "payload.seed: unknown field, ignored",
                "spec.max_in_flght: unknown field, ignored; did you mean 'max_in_flight'?",
                "spec.'x\\n': unknown field, ignored",
            ),
        ),
        ({"spec": spec(requests=[REQUEST]), "traffic": SYNTHETIC}, ("spec.requests: replaced by traffic",)),
        (
            {
                "spec": spec(
                    topology={
                        "kind": "aggregated",
                        "workers": {"initial_workers": 1, "startup_delay_ms": 9.0},
                    }
                ),
                "traffic": SYNTHETIC,
            },
            ("spec.topology.workers.startup_delay_ms: no effect without scaling",),
        ),
        (
            {"spec": rank(kv_transfer_bandwidth=1.0, kv_cache_bytes_per_token=2), "traffic": SYNTHETIC},
            (
                "spec.engine.rank.kv_transfer_bandwidth: no effect in an aggregated topology",
                "spec.engine.rank.kv_cache_bytes_per_token: no effect without a host tier or state cache",
            ),
        ),
        (
            {"spec": rank(sglang={"schedule_policy": "lpm"}), "traffic": SYNTHETIC},
            ("spec.engine.rank.sglang: no effect on backend vllm",),
        ),
        (
            {"spec": aic(mem_fraction_static=0.5), "traffic": SYNTHETIC},
            ("spec.engine.rank.timing_model.config.mem_fraction_static: no effect on this backend",),
        ),
        (
            {
                "spec": disaggregated(
                    decode={"rank": {"trtllm": {}, "kv_transfer_bandwidth": 2}},
                    prefill={"rank": {"kv_transfer_bandwidth": 1, "preemption_mode": "fifo"}},
                )
            },
            (
                "spec.engine.prefill.rank.preemption_mode: no effect on a prefill worker, "
                "which never runs more than one request on",
                "spec.engine.decode.rank.kv_transfer_bandwidth: no effect, "
                "transfers are those of the prefill worker",
                "spec.engine.prefill.rank.kv_transfer_bandwidth: no effect "
                "without both bytes and bandwidth of the transfer",
            ),
        ),
    ],
)
def test_what_cannot_act_is_noted(document, notes):
    document.setdefault("traffic", SYNTHETIC)
    assert parse_payload(document).notes == notes


def test_an_error_in_one_half_is_reported_as_itself():
    assert (
        refused(parse, spec(), {**SYNTHETIC, "islx": 3}) == "traffic.islx: unknown field; did you mean 'isl'?"
    )
    assert refused(parse, rank(max_num_seq=3)) == (
        "spec.engine.rank.max_num_seq: unknown field; did you mean 'max_num_seqs'?"
    )


def test_sessions_are_a_source_of_their_own():
    traffic = parse(spec(), {**SESSIONS, "inter_turn_delay_ms": 5}).traffic
    assert (traffic.turns, traffic.accumulates) == (4, True)
    assert parse(spec()).traffic.turns == 1


def test_models_are_immutable():
    execution = parse(spec())
    with pytest.raises(Exception, match="frozen"):
        execution.spec.max_in_flight = 3
    with pytest.raises(Exception, match="frozen"):
        execution.traffic.isl = 3
