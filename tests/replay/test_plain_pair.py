"""The event loop of plain pairs against the one of all pairs: the same records, to the ns."""

import json

import pytest

from aisimulate.replay import build_disagg
from aisimulate.replay.execute import execute
from aisimulate.replay.plain_pair import PlainPairFleet
from tools.bench.scenarios import SCENARIOS, SHIPPED_CUT, SHIPPED_TRACES
from tools.parity.scenario import payload_of

OFTEN_FULL = {"num_gpu_blocks": 2_100}
SHORT_CHUNKS = {"max_num_batched_tokens": 512, "block_size": 16, "num_gpu_blocks": 40_000}


def pair_payload(rank, prefill=2, decode=2, speedup=1.0):
    scenario = json.loads((SCENARIOS / "07_conv_disagg_4p4d.json").read_text())
    scenario["workload"] |= {"path": SHIPPED_CUT, "speedup": speedup}
    scenario["engine"] |= rank
    scenario["fleet"] |= {"prefill": prefill, "decode": decode}
    payload = payload_of(scenario, SHIPPED_TRACES)
    payload["spec"]["record_per_request"] = True
    return payload


def records(payload):
    report = execute(payload)
    return sorted(report["per_request"], key=lambda record: int(record["uuid"]))


@pytest.mark.parametrize(
    ("rank", "shape"),
    [
        ({}, {"prefill": 4, "decode": 4}),
        ({}, {"prefill": 1, "decode": 3, "speedup": 4.0}),
        (OFTEN_FULL, {"speedup": 0.5}),
        (OFTEN_FULL, {"prefill": 3, "decode": 1}),
        (SHORT_CHUNKS, {"decode": 1}),
        ({"enable_prefix_caching": False}, {}),
        ({"max_num_seqs": 2}, {"prefill": 3, "speedup": 8.0}),
        ({"preemption_mode": "fifo", "num_gpu_blocks": 2_100}, {}),
    ],
)
def test_a_plain_pair_is_served_as_any_pair(rank, shape, monkeypatch):
    payload = pair_payload(rank, **shape)
    runs = []
    monkeypatch.setattr(PlainPairFleet, "run", _counted(PlainPairFleet.run, runs))
    plain = records(payload)
    assert runs == [PlainPairFleet]
    monkeypatch.setattr(build_disagg, "is_plain_pair", lambda *_: False)
    assert records(payload) == plain
    assert runs == [PlainPairFleet]


def _counted(run, runs):
    def counted(fleet):
        runs.append(type(fleet))
        run(fleet)

    return counted
