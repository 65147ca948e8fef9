"""What a search space may hold beyond the reference's: numbers off the grid, listed pins, versions."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from search_fakes import make_config
from spica_walk import HOSTED, PINNED, changed, look

from aisimulate.config.messages import one_line
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.custom_choices import custom_choice


def space_of(**fields):
    return make_config(space=fields).search_space


def refusal(**fields):
    with pytest.raises(ValidationError) as caught:
        space_of(**fields)
    return one_line(caught.value, "", SmartSearchConfig)


@pytest.mark.parametrize(
    ("knob", "given", "taken"),
    [
        ("agg_max_num_seqs", [128, 256.0, 96.0], [128, 256, 96]),
        ("prefill_max_num_batched_tokens", [4096], [4096]),
        ("prefill_load_scale", [3, 64.5], [3.0, 64.5]),
        ("router_temperature", [0.05], [0.05]),
        ("disk_cache_hit_weight", [1, 0.1], [1.0, 0.1]),
    ],
)
def test_numbers_off_the_grid_by_explicit_wish(knob, given, taken):
    found = getattr(space_of(custom_choices=True, **{knob: given}), knob)
    assert found == taken
    assert [type(value) for value in found] == [type(value) for value in taken]


@pytest.mark.parametrize(
    ("knob", "entry", "problem"),
    [
        ("agg_max_num_seqs", 0, "must be a whole number from 1 to"),
        ("agg_max_num_seqs", 10.5, "must be a whole number from 1 to"),
        ("agg_max_num_seqs", True, "must be a whole number from 1 to"),
        ("agg_max_num_seqs", "many", "must be a whole number from 1 to"),
        ("router_temperature", -0.1, "must be a number of at least 0"),
        ("router_temperature", float("inf"), "must be a number of at least 0"),
        ("host_cache_hit_weight", 1.5, "must be a number from 0 to 1"),
    ],
)
def test_what_no_number_off_the_grid_may_be(knob, entry, problem):
    assert f"invalid choice {entry!r} for {knob}: {problem}" in refusal(
        custom_choices=True, **{knob: [entry]}
    )


def test_without_the_wish_the_grid_holds_and_the_wish_is_named():
    assert "custom_choices: true takes a whole number from 1" in refusal(agg_max_num_seqs=[128])
    assert "custom_choices" not in refusal(backend=["vlm"])
    assert "invalid choice 'vlm' for backend" in refusal(custom_choices=True, backend=["vlm"])


def test_a_number_keeps_its_meaning():
    assert custom_choice("decode_max_num_seqs", 7.0) == 7


def test_draft_lengths_are_searched():
    given = space_of(aic_nextn_choices=[0, 2, 2])
    assert (given.aic_nextn, given.aic_nextn_choices) == (2, [0, 2])
    assert "aic_nextn and aic_nextn_choices: give one" in refusal(aic_nextn=1, aic_nextn_choices=[0, 2])
    assert "must be 0 (off) or 1..5, got 7" in refusal(aic_nextn_choices=[7])
    again = type(given).model_validate(given.model_dump())
    assert again.model_dump() == given.model_dump()


def test_draft_lengths_reach_the_replays(monkeypatch):
    seen = look(
        changed(PINNED, {"search_space.aic_nextn_choices": [0, 2], "sweep.candidates_per_round": 2}),
        monkeypatch,
    )
    ranks = [payload["spec"]["engine"] for payload in seen.payloads]
    assert ["aic_nextn" in str(rank) for rank in ranks] == [False, True]
    assert {outcome.config["aic_nextn"] for outcome in seen.result.outcomes} == {0, 2}


def test_host_sizes_are_searched_under_the_rules_of_the_largest(monkeypatch):
    sizes = {"search_space.num_g2_blocks": None, "search_space.num_g2_blocks_choices": [0, 4000]}
    whole = {"sweep.candidates_per_round": 2, "sweep.early_stop": "off"}
    seen = look(changed(HOSTED, {**sizes, **whole}), monkeypatch)
    assert [outcome.config["num_g2_blocks"] for outcome in seen.result.outcomes] == [0, 4000]
    reuse = [metrics["prefix_cache_reused_ratio"] for metrics in seen.metrics]
    assert reuse[0] < reuse[1]
    assert "kv_bytes_per_token is required" in refusal(num_g2_blocks_choices=[0, 10])


def test_versions_of_timing_data_are_recorded(monkeypatch):
    seen = look(changed(PINNED, {"search_space.backend_version": {"vllm": "next"}}), monkeypatch)
    plain = look(PINNED, monkeypatch)
    assert seen.result.backend_versions["vllm"] != plain.result.backend_versions["vllm"]
    assert seen.payloads != plain.payloads
    told = refusal(backend_version={"vlm": "next"})
    assert "'vlm' is not one of vllm, sglang, trtllm; did you mean" in told
