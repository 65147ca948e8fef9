"""How full the KV cache got, and what a tenth more or less of it changes."""

from __future__ import annotations

import json

import pytest

from aisimulate.cli.main import main
from aisimulate.replay.execute import execute
from aisimulate.whatif.held import PeakHeld
from aisimulate.whatif.kv_sensitivity import kv_sensitivity
from tests.whatif.payloads import SYNTHETIC, aggregated, pair

FULL = aggregated(
    {**SYNTHETIC, "concurrency": 12}, workers=1, rank={"num_gpu_blocks": 20, "max_num_seqs": 12}
)
ROOMY = aggregated({**SYNTHETIC, "concurrency": 2}, workers=1)


def looked_at(payload):
    held = PeakHeld()
    report = execute(payload, observers=[held])
    return kv_sensitivity(payload, report, held.peaks)


def test_a_full_cache_matters():
    """Twenty blocks hold three requests of six blocks; with eighteen or two-and-twenty it is the same three,
    but what is cached of them differs."""
    found = looked_at(FULL)
    assert found.blocks == {"agg": 20}
    assert found.peaks["agg"] >= 0.9
    assert found.is_near_full
    less, more = found.changes
    assert (less.blocks, more.blocks) == ({"agg": 18}, {"agg": 22})
    for item, blocks in ((less, 18), (more, 22)):
        expected = execute(aggregated(FULL["traffic"], 1, {"num_gpu_blocks": blocks, "max_num_seqs": 12}))
        before = execute(FULL)
        change = expected["mean_ttft_ms"] / before["mean_ttft_ms"] - 1
        assert item.changes["mean_ttft_ms"] == pytest.approx(change)


def test_a_roomy_cache_does_not():
    found = looked_at(ROOMY)
    assert 0 < found.peaks["agg"] < 0.5
    assert not found.is_near_full
    assert not found.matters
    assert all(change == 0.0 for item in found.changes for change in item.changes.values())


def test_pools_are_told_apart():
    found = looked_at(pair(decode={"num_gpu_blocks": 40}))
    assert set(found.peaks) == {"prefill", "decode"} == set(found.blocks)
    assert [item.blocks for item in found.changes] == [
        {"prefill": 58, "decode": 36},
        {"prefill": 70, "decode": 44},
    ]


@pytest.fixture
def simulate(tmp_path, capsys):
    def run(payload, *options):
        path = tmp_path / "payload.json"
        path.write_text(json.dumps(payload))
        code = main(["simulate", "--payload", str(path), *options])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        return shown.out

    return run


def test_simulate_tells_it_below_the_table(simulate):
    plain, told = simulate(ROOMY), simulate(ROOMY, "--kv-sensitivity")
    lines = told.splitlines()[len(plain.splitlines()) :]
    assert lines[0].startswith("KV capacity: 64 blocks of a rank, at most ")
    assert lines[1:] == [
        "  -10% KV capacity: nothing changes",
        "  +10% KV capacity: nothing changes",
        "  the result does not hang on the KV capacity",
    ]
    assert "give it as num_gpu_blocks" in simulate(FULL, "--kv-sensitivity")


def test_simulate_adds_it_to_the_report(simulate):
    plain = json.loads(simulate(FULL, "--format", "json"))
    told = json.loads(simulate(FULL, "--format", "json", "--kv-sensitivity"))
    found = told.pop("kv_sensitivity")
    assert told["per_request"] == plain["per_request"], "looking changes nothing"
    assert found["num_gpu_blocks"] == {"agg": 20}
    assert found["near_saturation"] is True
    assert [item["num_gpu_blocks"]["agg"] for item in found["variants"]] == [18, 22]


def test_capacities_that_serve_nothing_are_told(simulate):
    few = {**SYNTHETIC, "concurrency": 1}
    least = next(
        blocks
        for blocks in range(1, 64)
        if execute(aggregated(few, 1, {"num_gpu_blocks": blocks}))["completed_requests"]
    )
    rejected = simulate(aggregated(few, 1, {"num_gpu_blocks": 1}), "--kv-sensitivity")
    assert rejected.endswith("  no request completed with any of them: nothing can be said\n")
    edge = looked_at(aggregated(few, 1, {"num_gpu_blocks": least}))
    assert [item.failure for item in edge.changes] == ["no request completed", ""]
    assert edge.matters
