"""Each variant changes the one assumption that it names, in every kind of payload, or says why it cannot."""

from __future__ import annotations

import pytest

from aisimulate.core.errors import AISimulateError
from aisimulate.replay.execute import execute
from aisimulate.whatif.base import base_of, unrecorded
from aisimulate.whatif.catalogue import NAMES, VARIANTS
from aisimulate.whatif.payloads import get, whole_payload
from aisimulate.whatif.replays import Task, run_replay
from aisimulate.whatif.variants import variants_of
from tests.replay.case_files import CASES, payload_of
from tests.whatif.payloads import RANK, REQUESTS, SYNTHETIC, aggregated, aic, pair

SOURCE = {"file": "log.jsonl", "sha256": "0" * 64, "format": "vllm", "requests": 60}
TRACE = [
    {"timestamp": 0, "input_length": 8, "output_length": 3, "hash_ids": [1, 2]},
    {"timestamp": 40, "input_length": 8, "output_length": 3, "hash_ids": [1, 3]},
]


def base(payload):
    payload = unrecorded(payload)
    return base_of(payload, execute(payload))


def variants(payload, *only):
    found = {variant.name: variant for variant in variants_of(base(payload), VARIANTS, only)}
    assert set(found) <= set(NAMES)
    return found


def value(variant, path):
    return get(variant.payload, tuple(path.split(".")))


def changes(before, after, path=""):
    """List the paths at which two payloads differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = dict.fromkeys([*before, *after])
        return [p for name in names for p in changes(before.get(name), after.get(name), f"{path}.{name}")]
    return [] if before == after else [path[1:]]


def test_a_worker_more_and_one_fewer():
    found = variants(aggregated(workers=3), "replicas")
    path = "spec.topology.workers.initial_workers"
    assert {name: value(variant, path) for name, variant in found.items()} == {
        "more-replicas": 4,
        "fewer-replicas": 2,
    }
    found = variants(pair(workers=(1, 3)), "replicas")
    assert value(found["more-prefill"], "spec.topology.prefill.initial_workers") == 2
    assert found["fewer-prefill"].payload is None
    assert found["fewer-prefill"].reason == "there is only one prefill worker"
    assert value(found["fewer-decode"], "spec.topology.decode.initial_workers") == 2


def test_a_pool_that_scales_has_no_number_of_workers_to_change():
    script = {"first_tick_ms": 10.0, "step_ms": 10.0, "decisions": [{"target_decode": 1}]}
    scaled = aggregated(adapters={"scaling": {"provider": "scripted", "config": script}})
    for name, variant in variants(scaled, "replicas", "failure").items():
        assert "adapters.scaling" in variant.reason, name


@pytest.mark.parametrize(
    ("traffic", "spec", "path", "before", "more", "less"),
    [
        ({**SYNTHETIC, "concurrency": 10}, {}, "traffic.concurrency", 10, 12, 8),
        ({**SYNTHETIC, "concurrency": 2}, {}, "traffic.concurrency", 2, 3, 1),
        ({**SYNTHETIC, "load_type": "poisson", "request_rate": 5}, {}, "traffic.request_rate", 5, 6.0, 4.0),
        (
            {**SYNTHETIC, "load_type": "constant_rate", "arrival_interval_ms": 12.0},
            {},
            "traffic.arrival_interval_ms",
            12.0,
            10.0,
            15.0,
        ),
        (None, {"max_in_flight": 5}, "spec.max_in_flight", 5, 6, 4),
    ],
)
def test_a_fifth_more_and_less_traffic(traffic, spec, path, before, more, less):
    payload = aggregated(traffic, **spec)
    found = variants(payload, "traffic")
    assert get(payload, tuple(path.split("."))) == before
    assert value(found["more-traffic"], path) == pytest.approx(more)
    assert value(found["less-traffic"], path) == pytest.approx(less)
    assert changes(base(payload).payload, found["more-traffic"].payload) == [path]


def test_requests_given_one_by_one_arrive_faster():
    found = variants(aggregated(), "traffic")
    assert [r["arrival_time_ms"] for r in found["more-traffic"].payload["spec"]["requests"]] == [0, 25.0]
    at_once = [{**request, "arrival_time_ms": 0} for request in REQUESTS]
    assert "all requests arrive at once" in variants(aggregated(requests=at_once))["more-traffic"].reason


def test_a_cap_in_both_halves_stays_the_same_in_both():
    payload = aggregated({**SYNTHETIC, "concurrency": 10}, max_in_flight=10)
    more = variants(payload, "more-traffic")["more-traffic"]
    assert value(more, "traffic.concurrency") == value(more, "spec.max_in_flight") == 12
    assert (
        "only one request in flight"
        in variants(aggregated({**SYNTHETIC, "concurrency": 1}))["less-traffic"].reason
    )


def test_a_trace_is_played_faster_and_its_lengths_are_stretched(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(str(row).replace("'", '"') + "\n" for row in TRACE))
    traffic = {"source_type": "trace", "trace_path": str(path), "trace_block_size": 4}
    found = variants(aggregated(traffic), "traffic", "lengths")
    assert value(found["more-traffic"], "traffic.arrival_speedup_ratio") == pytest.approx(1.2)
    assert (found["longer-prompts"].prompts, found["longer-prompts"].outputs) == (1.25, 1.0)
    assert (found["longer-outputs"].prompts, found["longer-outputs"].outputs) == (1.0, 1.25)


def test_prompts_and_outputs_a_quarter_longer():
    found = variants(aggregated({**SYNTHETIC, "concurrency": 4}), "lengths")
    assert value(found["longer-prompts"], "traffic.isl") == 20
    assert value(found["longer-outputs"], "traffic.osl") == 10
    tokens = [{**REQUESTS[0], "input_token_ids": list(range(8))}]
    for variant in variants(aggregated(requests=tokens), "lengths").values():
        assert variant.reason == "requests are given token by token"


def test_a_failed_worker_is_out_for_the_middle_third():
    payload = aggregated({**SYNTHETIC, "concurrency": 4})
    failed = variants(payload, "failure")["failed-worker"]
    script = value(failed, "spec.adapters.scaling.config")
    third = base(payload).report["duration_ms"] / 3
    assert script["first_tick_ms"] == script["step_ms"] == pytest.approx(third)
    assert script["decisions"] == [{"target_decode": 1, "abrupt": True}, {"target_decode": 2}]
    assert failed.title.endswith("out for the middle third, its requests start again")
    routed = aggregated({**SYNTHETIC, "concurrency": 4})
    routed["spec"]["adapters"] = {"placement": {"provider": "kv_router"}}
    kept = variants(routed, "failure")["failed-worker"]
    script = value(kept, "spec.adapters.scaling.config")
    assert script["decisions"] == [{"target_decode": 1}, {"target_decode": 2}]
    assert kept.title.endswith("it ends what it has")
    assert failed.keeps_gpus
    found = variants(pair(workers=(1, 2)), "failure")
    assert found["failed-prefill"].reason == "there is only one prefill worker: nothing would be served"
    assert value(found["failed-decode"], "spec.adapters.scaling.config")["decisions"][0] == {
        "target_decode": 1
    }


def test_half_the_bandwidth_of_hand_overs():
    rank = {"kv_transfer_bytes_per_token": 1000, "kv_transfer_bandwidth": 8.0}
    found = variants(pair(prefill=rank), "slower-transfer")["slower-transfer"]
    assert value(found, "spec.engine.prefill.rank.kv_transfer_bandwidth") == 4.0
    found = variants(pair(latency_ms=3.0), "slower-transfer")["slower-transfer"]
    assert value(found, "spec.topology.handoff_latency_ms") == 6.0
    assert "take no time here" in variants(pair(), "bandwidth")["slower-transfer"].reason
    assert "nothing is handed over" in variants(aggregated(), "bandwidth")["slower-transfer"].reason


def test_half_the_bandwidth_of_host_memory_and_disk():
    tiers = {
        "kv_cache_bytes_per_token": 1000,
        "native_host_offload": {"num_host_blocks": 64, "h2d_bandwidth_gbps": 16.0},
        "g3_offload": {"scope": "worker_local", "num_g3_blocks": 64},
    }
    found = variants(aggregated(rank=tiers), "bandwidth")
    host = value(found["slower-host"], "spec.engine.rank.native_host_offload")
    assert (host["h2d_bandwidth_gbps"], host["d2h_bandwidth_gbps"]) == (8.0, 16.0)
    disk = value(found["slower-disk"], "spec.engine.rank.g3_offload")
    assert (disk["read_bandwidth_gbps"], disk["write_bandwidth_gbps"]) == (5.0, 5.0)
    assert "shared_read_bandwidth_gbps" not in disk
    shared = {**tiers["native_host_offload"], "scope": "cluster_shared", "kv_layout_id": "one"}
    found = variants(aggregated(rank={**tiers, "native_host_offload": shared}), "bandwidth")
    host = value(found["slower-host"], "spec.engine.rank.native_host_offload")
    assert (host["h2d_bandwidth_gbps"], host["shared_d2h_bandwidth_gbps"]) == (8.0, 40.0)
    free = {
        **tiers,
        "native_host_offload": {"num_host_blocks": 64, "h2d_bandwidth_gbps": 0, "d2h_bandwidth_gbps": 0},
    }
    assert variants(aggregated(rank=free), "bandwidth")["slower-host"].reason == "its bandwidth is unlimited"
    assert variants(aggregated(), "bandwidth")["slower-disk"].reason == "no g3_offload in this deployment"


def test_passes_a_tenth_longer_and_shorter():
    found = variants(pair(decode={"speedup_ratio": 2.0}), "times")
    assert value(found["slower-passes"], "spec.engine.prefill.rank.speedup_ratio") == pytest.approx(1 / 1.1)
    assert value(found["slower-passes"], "spec.engine.decode.rank.speedup_ratio") == pytest.approx(2 / 1.1)
    assert value(found["faster-passes"], "spec.engine.decode.rank.speedup_ratio") == pytest.approx(2 / 0.9)
    one = aggregated(requests=REQUESTS[:1])
    slower = execute(variants(one, "times")["slower-passes"].payload)
    assert slower["mean_e2e_latency_ms"] == pytest.approx(1.1 * execute(one)["mean_e2e_latency_ms"])


def test_mixed_passes_timed_the_other_way():
    path = "spec.engine.rank.timing_mode"
    assert value(variants(aggregated(), "times")["fused-passes"], path) == "fused"
    fused = variants(aggregated(rank={"timing_mode": "fused"}), "times")
    assert value(fused["additive-passes"], path) == "additive"
    assert "two pools" in variants(pair(), "times")["fused-passes"].reason
    sglang = aggregated(rank={"backend": "sglang"})
    assert variants(sglang, "times")["fused-passes"].reason.startswith("sglang never mixes")


def test_what_stands_between_traffic_and_passes():
    found = variants(aggregated(), "serving")
    assert value(found["look-ahead"], "spec.engine.rank.scheduling_look_ahead") == 1
    assert value(found["front-end"], "spec.frontend") == {"preset": "inferencex"}
    assert found["no-calibration"].reason == "there is none"
    calibration = {"version": 1, "key": {"backend": "vllm"}, "prefill_scale": 2.0, "source": SOURCE}
    given = aggregated(
        rank={"scheduling_look_ahead": 1}, frontend={"stream_interval": 4}, calibration=calibration
    )
    whole, found = base(given).payload, variants(given, "serving")
    assert list(found) == ["no-look-ahead", "no-front-end", "no-calibration"]
    assert changes(whole, found["no-look-ahead"].payload) == ["spec.engine.rank.scheduling_look_ahead"]
    assert changes(whole, found["no-front-end"].payload) == ["spec.frontend"]
    assert changes(whole, found["no-calibration"].payload) == ["spec.calibration"]
    for variant in found.values():
        assert execute(variant.payload)["mean_e2e_latency_ms"] > 0


def test_other_data_types_than_those_in_use():
    found = variants(aic(), "precision")
    config = "spec.engine.rank.timing_model.config"
    assert value(found["weights-fp8"], f"{config}.gemm_dtype") == "fp8"
    assert value(found["kv-fp8"], f"{config}.kv_cache_dtype") == "fp8"
    assert "weights-bf16" not in found
    found = variants(aic(gemm_quant_mode="fp8"), "precision")
    assert value(found["weights-bf16"], config) == {
        "model": "meta-llama/Meta-Llama-3.1-8B",
        "backend": "vllm",
        "system": "h200_sxm",
        "tp": 1,
        "gemm_dtype": "bfloat16",
    }
    assert "weights-fp8" not in found
    reason = variants(aggregated(), "precision")["precision"].reason
    assert reason == "pass times are those of timing_model fixed, which knows no data types"


def test_a_tenth_more_and_less_kv_capacity():
    found = variants(pair(decode={"num_gpu_blocks": 100}), "kv")
    for stage, less, more in (("prefill", 58, 70), ("decode", 90, 110)):
        path = f"spec.engine.{stage}.rank.num_gpu_blocks"
        assert value(found["less-kv"], path) == less
        assert value(found["more-kv"], path) == more


def test_an_estimated_capacity_is_varied_from_the_estimate():
    told = base(aic()).report["provenance"]["num_gpu_blocks"]
    less = variants(aic(), "less-kv")["less-kv"]
    assert value(less, "spec.engine.rank.num_gpu_blocks") == round(told * 0.9)


def test_a_load_relative_to_the_capacity_stays_what_it_was():
    """A capacity of 512 tokens holds 25 requests of 20; half of them are in flight in every variant."""
    load = {"load_type": "kv_capacity_fraction", "kv_load_ratio": 0.5}
    payload = aggregated({**SYNTHETIC, **load})
    found = variants(payload, "kv", "replicas", "traffic")
    for name in ("less-kv", "more-kv", "more-replicas"):
        assert value(found[name], "traffic.concurrency") == 12, name
        assert "kv_load_ratio" not in found[name].payload["traffic"]
    assert value(found["more-traffic"], "traffic.concurrency") == 14
    given, fixed = execute(unrecorded(payload)), execute(base(payload).payload)
    assert fixed["mean_ttft_ms"] == given["mean_ttft_ms"]


def test_stages_that_share_settings_are_changed_each_by_itself():
    payload = pair(engine={"rank": RANK})
    whole = whole_payload(payload)
    assert execute(whole)["mean_e2e_latency_ms"] == execute(payload)["mean_e2e_latency_ms"]
    less = variants(payload, "less-kv")["less-kv"]
    assert value(less, "spec.engine.prefill.rank.num_gpu_blocks") == 58
    assert value(less, "spec.engine.decode.rank.num_gpu_blocks") == 58


def test_the_given_payload_stays_as_it_is():
    payload = aggregated({**SYNTHETIC, "concurrency": 4})
    before = repr(payload)
    variants(payload)
    assert repr(payload) == before


def test_only_names_groups_and_variants():
    assert list(variants(aggregated(), "traffic", "less-kv")) == ["more-traffic", "less-traffic", "less-kv"]
    absent = variants(aggregated(), "more-decode", "kv")
    assert list(absent) == ["more-kv", "less-kv", "more-decode"]
    assert absent["more-decode"].reason == "this deployment has no such assumption, or holds it already"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "payload" in case])
def test_variants_of_recorded_cases_are_replayed(name, tmp_path):
    """Whatever a case uses: a variant has a report, or an error of one line that is ours."""
    payload = payload_of(name, tmp_path)
    try:
        found = variants(payload)
    except AISimulateError:
        return
    for variant in found.values():
        if variant.payload is None:
            assert variant.reason
            assert "\n" not in variant.reason
        else:
            task = Task(variant.title, variant.payload, variant.prompts, variant.outputs)
            result = run_replay(task)
            assert (result.report is None) is bool(result.failure)
            assert "\n" not in result.failure
