"""Packed content ids: as small as they can be, and never mixed up."""

import json

import pytest

from aisimulate._runtime import run_replay_json
from aisimulate.workload.block_ids import packed


def test_ids_take_32_bits_where_they_fit():
    assert packed([0, 2**32 - 1]).itemsize == 4
    assert packed([0, 2**32]).itemsize == 8
    assert list(packed([5, 2**64 - 1])) == [5, 2**64 - 1]


@pytest.mark.parametrize(
    ("ids", "error"), [([1.0], TypeError), ([-1], OverflowError), ([2**64], OverflowError)]
)
def test_other_values_are_refused(ids, error):
    with pytest.raises(error):
        packed(ids)


@pytest.mark.parametrize("planned", [None, [1, 2]])
def test_ids_that_agree_in_their_low_32_bits_are_different_text(planned, tmp_path):
    """Prompts of narrow and of wide ids are compared as numbers, with and without spelled tokens."""
    prompts = [[1, 2, 3], [1, 2 + 2**32, 3], [1, 2, 3], [1, 2 + 2**32, 3], [2 + 2**32, 1, 3], [2, 1, 3]]
    rows = [
        {"timestamp": 100 * n, "input_length": 12, "output_length": 2, "hash_ids": ids}
        for n, ids in enumerate(prompts)
    ]
    rows[0]["output_token_ids"] = planned
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    rank = {
        "num_gpu_blocks": 64,
        "block_size": 4,
        "timing_model": {"type": "fixed", "prefill_ms": 1, "decode_ms": 1},
    }
    spec = {"topology": {"kind": "aggregated", "workers": {"initial_workers": 1}}, "engine": {"rank": rank}}
    traffic = {"source_type": "trace", "trace_path": str(path), "trace_block_size": 4}
    report = json.loads(run_replay_json(json.dumps({"spec": spec, "traffic": traffic})))
    assert [r["reused_input_tokens"] for r in report["per_request"]] == [0, 4, 8, 8, 0, 0]
