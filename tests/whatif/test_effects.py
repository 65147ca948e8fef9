"""What the variants do, in which order they are told, and whether candidates keep theirs."""

from __future__ import annotations

import json

import pytest

from aisimulate.core.errors import InputError
from aisimulate.replay.execute import execute
from aisimulate.report.whatif import whatif_json, whatif_text
from aisimulate.spica.config_goal import OptimizationTarget
from aisimulate.whatif.catalogue import VARIANTS
from aisimulate.whatif.effects import Effect, Sensitivity, Subject, goal_of_payload, sensitivities
from aisimulate.whatif.order import robustness
from aisimulate.whatif.replays import Task, run_replays
from tests.whatif.payloads import SYNTHETIC, aggregated, aic

LATENCY = OptimizationTarget.E2E_LATENCY
CLOSED = {**SYNTHETIC, "concurrency": 10}


def found(payload, target=LATENCY, *only):
    return sensitivities([Subject("it", payload)], target, VARIANTS, only=only)[0]


def test_effects_are_those_of_their_replays_the_greatest_first():
    payload = aggregated(CLOSED)
    one = found(payload, LATENCY, "replicas", "traffic")
    assert one.value == execute(payload)["mean_e2e_latency_ms"]
    for effect in one.effects:
        workers, cap = 2, 10
        workers += {"more-replicas": 1, "fewer-replicas": -1}.get(effect.name, 0)
        cap += {"more-traffic": 2, "less-traffic": -2}.get(effect.name, 0)
        expected = execute(aggregated({**CLOSED, "concurrency": cap}, workers=workers))
        assert effect.value == expected["mean_e2e_latency_ms"], effect.name
        assert effect.change == pytest.approx(effect.value / one.value - 1)
        assert effect.figures["mean_ttft_ms"] == expected["mean_ttft_ms"]
    sizes = [abs(effect.change) for effect in one.effects]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) > 1


def test_a_failed_worker_is_paid_for():
    payload = aggregated(CLOSED, workers=2)
    one = found(payload, OptimizationTarget.THROUGHPUT_PER_GPU, "failure")
    failed = one.effect("failed-worker")
    assert failed.figures["gpus"] == pytest.approx(2.0)
    assert failed.value == pytest.approx(failed.figures["output_throughput_tok_s"] / 2.0)
    assert failed.value < one.value


def test_a_variant_without_data_is_not_varied_and_says_so():
    one = found(aic(), LATENCY, "precision")
    assert [effect.name for effect in one.effects] == ["weights-fp8", "kv-fp8"] or "weights-fp8" in {
        effect.name for effect in one.effects
    }
    missing = {variant.name: variant.reason for variant in one.skipped}
    assert "nvfp4" in missing["weights-nvfp4"]


def test_what_cannot_be_simulated_is_not_varied_and_says_so():
    payload = aggregated(CLOSED, rank={"backend": "sglang", "prefill_decode_interval": 1})
    one = found(payload, LATENCY, "look-ahead")
    assert [effect.name for effect in one.effects] == []
    assert "is not supported yet with prefill_decode_interval 1" in one.skipped[0].reason


def test_a_variant_that_fails_is_told_as_that():
    """With less than a block a prompt cannot be held: every request is rejected."""
    payload = aggregated({**SYNTHETIC, "concurrency": 1, "isl": 240, "osl": 10}, rank={"num_gpu_blocks": 65})
    one = found(payload, LATENCY, "kv")
    assert [(effect.name, effect.failure) for effect in one.effects[:1]] == [
        ("less-kv", "no request completed")
    ]
    text = whatif_text(one, [one], None)
    assert "less-kv: failed: no request completed" in text


def test_the_goal_of_a_payload():
    sla = {"ttft_ms": 100, "itl_ms": 10}
    assert goal_of_payload(aggregated(CLOSED, sla=sla)).target is OptimizationTarget.GOODPUT_PER_GPU
    assert goal_of_payload(aggregated(CLOSED)).target is OptimizationTarget.THROUGHPUT_PER_GPU
    assert goal_of_payload(aggregated()).target is LATENCY
    assert goal_of_payload(aggregated(), "ttft").target is OptimizationTarget.TTFT
    with pytest.raises(InputError, match="--goal goodput: needs an SLA"):
        goal_of_payload(aggregated(), "goodput")


def test_processes_change_no_result():
    payload = aggregated(CLOSED)
    alone = sensitivities([Subject("it", payload)], LATENCY, VARIANTS, jobs=1)
    heard = []
    shared = sensitivities(
        [Subject("it", payload)],
        LATENCY,
        VARIANTS,
        jobs=2,
        on_end=lambda task, done, total: heard.append((done, total)),
    )
    assert shared == alone
    assert heard[-1][0] == heard[-1][1] > 5


def test_a_failure_in_another_process_is_a_result():
    good, bad = aggregated(CLOSED), {"spec": {"topology": {}}}
    results = run_replays([Task("good", good), Task("bad", bad)], jobs=2)
    assert results[0].report["completed_requests"] == 20
    assert "spec.topology" in results[1].failure


def test_a_base_that_cannot_be_replayed_is_an_error():
    unfit = aggregated(CLOSED, rank={"block_size": 0})
    with pytest.raises(InputError, match="block_size"):
        found(unfit)


def made(label, value, **values):
    effects = [Effect(name.replace("_", "-"), name, one, None, {}) for name, one in values.items()]
    return Sensitivity(label, OptimizationTarget.GOODPUT, value, {"gpus": 1.0}, effects, [])


def test_the_order_hangs_on_what_changes_it():
    first = made("A", 10.0, more=12.0, less=8.0, other=1.0, gone=None)
    second = made("B", 9.0, more=13.0, less=7.0, gone=5.0)
    third = made("C", 8.0, more=11.0, less=7.5, gone=6.0)
    order = robustness([first, second, third])
    told = {item.name: (list(item.order), item.changes_first) for item in order.reorderings}
    assert told == {"more": ([1, 0, 2], True), "less": ([0, 2, 1], False), "gone": ([2, 1, 0], True)}
    assert order.held == 0
    assert list(order.single) == ["other"]
    text = whatif_text(first, [first, second, third], order)
    assert "it holds under 0 of 3 variants, and hangs on:" in text
    assert "more: another comes first: 2 (13.0), 1 (12.0), 3 (11.0)" in text
    assert "less: 1 (8.000), 3 (7.500), 2 (7.000)" in text
    assert "gone: another comes first: 3 (6.000), 2 (5.000), 1 (-)" in text
    assert "not all of them have other" in text


def test_a_lower_latency_comes_first():
    fast, slow = (
        Sensitivity(label, LATENCY, value, {"gpus": 1.0}, [Effect("x", "x", value, 0.0, {})], [])
        for label, value in (("fast", 1.0), ("slow", 2.0))
    )
    assert robustness([fast, slow]).held == 1


def test_json_holds_everything():
    one = found(aggregated(CLOSED), LATENCY, "traffic", "bandwidth")
    document = json.loads(whatif_json(one, [one], None))
    assert document["goal"] == "e2e_latency"
    assert {item["name"] for item in document["variants"]} == {"more-traffic", "less-traffic"}
    assert {item["name"] for item in document["not_varied"]} == {
        "slower-transfer",
        "slower-host",
        "slower-disk",
    }
    assert "order" not in document
