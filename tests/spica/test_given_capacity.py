"""A KV capacity that is given takes the place of the estimate, everywhere in a search."""

from __future__ import annotations

import pytest
from spica_walk import PINNED, changed, look

from aisimulate.cli.main import main
from aisimulate.core.errors import InputError
from aisimulate.report.search_file import search_of

GIVEN = changed(PINNED, {"search_space.agg_num_gpu_blocks": 3000})


def test_the_replay_gets_it_instead_of_a_share_of_memory(monkeypatch):
    seen = look(GIVEN, monkeypatch)
    (payload,) = seen.payloads
    rank = payload["spec"]["engine"]["rank"]
    assert rank["num_gpu_blocks"] == 3000
    assert "gpu_memory_utilization" not in rank["timing_model"]["config"]


def test_a_share_of_memory_beside_it_is_noted(monkeypatch):
    both = changed(GIVEN, {"search_space.agg_gpu_memory_utilization": 0.5})
    note = "agg_gpu_memory_utilization: no effect on replays beside agg_num_gpu_blocks"
    assert note in look(both, monkeypatch).notes
    assert note not in look(GIVEN, monkeypatch).notes


def test_a_relative_load_follows_it(monkeypatch):
    """3,000 blocks of 64 tokens hold six requests of 30,004 tokens; three tenths of them are one."""
    full = changed(GIVEN, {"workload.kv_load_ratio": 1.0})
    (payload,) = look(full, monkeypatch).payloads
    assert payload["traffic"]["concurrency"] == 6


def test_what_does_not_hold_a_sequence_is_left_out(monkeypatch):
    short = changed(PINNED, {"search_space.agg_num_gpu_blocks": 2048})  # as many tokens as the model takes
    with pytest.raises(InputError, match="KV capacity of a rank does not exceed 131072 tokens"):
        look(short, monkeypatch)
    assert look(changed(short, {"search_space.context_length": 32_768}), monkeypatch).payloads


@pytest.mark.parametrize(
    ("blocks", "message"), [(0, "must be positive"), (2**40, "must be at most"), ("x", "integer")]
)
def test_a_wrong_one_is_refused(blocks, message):
    with pytest.raises(ValueError) as caught:
        search_of(changed(PINNED, {"search_space.agg_num_gpu_blocks": blocks}))
    assert "agg_num_gpu_blocks" in str(caught.value)
    assert message in str(caught.value)


def test_estimates_of_the_screen_use_it(tmp_path, capsys):
    import yaml

    search = changed(
        PINNED, {"workload": {"isl": 8000, "osl": 100, "concurrency": 40, "num_request_ratio": 3}}
    )
    told = []
    for blocks in (None, 2500):
        path = tmp_path / f"search-{blocks}.yaml"
        path.write_text(yaml.safe_dump(changed(search, {"search_space.agg_num_gpu_blocks": blocks})))
        assert main(["screen", str(path), "--format", "json"]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] != told[1]
