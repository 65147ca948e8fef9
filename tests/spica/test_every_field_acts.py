"""Every field of a search config acts on what is replayed and on its result, or it says why it does not.

Only what this version leaves to later ones may be refused or reported without effect; each such row names
its reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from spica_field_table import TABLE
from spica_walk import PAIR, PINNED, POOL, TRACE, Acts, Inert, Refused, Why, cases, changed, look

from aisimulate.spica.config import SmartSearchConfig
from model_walk import models_below

ACTS, REFUSED, INERT = (list(cases(TABLE, kind)) for kind in (Acts, Refused, Inert))


def named(listed):
    return pytest.mark.parametrize(
        "effect", [effect for _, effect in listed], ids=[name for name, _ in listed]
    )


@named(ACTS)
def test_a_field_acts(effect, monkeypatch):
    before, after = look(effect.base, monkeypatch), look(changed(effect.base, effect.changes), monkeypatch)
    for aspect in effect.sees:
        assert getattr(before, aspect) != getattr(after, aspect), aspect
    assert not [note for note in after.notes if "no effect" in note]


@named(REFUSED)
def test_a_field_is_refused_with_its_reason(effect, monkeypatch):
    with pytest.raises(ValueError) as caught:
        look(changed(effect.base, effect.changes), monkeypatch)
    assert effect.text in str(caught.value)
    assert look(effect.base, monkeypatch).metrics


@named(INERT)
def test_a_field_without_effect_is_reported(effect, monkeypatch):
    before, after = look(effect.base, monkeypatch), look(changed(effect.base, effect.changes), monkeypatch)
    assert effect.note in after.notes
    assert effect.note not in before.notes
    assert after.metrics == before.metrics


def test_every_field_of_every_model_is_walked():
    walked = {f"{model}.{name}" for model, fields in TABLE.items() for name in fields}
    models = models_below(SmartSearchConfig)
    assert walked == {f"{model.__name__}.{name}" for model in models for name in model.model_fields}


def test_a_row_changes_the_field_it_stands_for():
    for name, effect in [*ACTS, *REFUSED, *INERT]:
        field = name.split(".")[1].split("-")[0]
        assert any(
            field in path.split(".") or field in str(value) for path, value in effect.changes.items()
        ), name


@pytest.mark.parametrize(("sampler", "told"), [("grid", True), ("auto", True), ("random", False)])
def test_a_seed_that_draws_nothing_is_reported(sampler, told, monkeypatch):
    seeded = changed(POOL, {"sweep.random_seed": 5, "sweep.sampler": sampler})
    notes = ["sweep.random_seed: no effect with the grid sampler, which draws nothing"]
    assert look(seeded, monkeypatch).notes == notes * told


def test_a_plain_search_has_no_remarks(monkeypatch):
    for base in (PINNED, PAIR, POOL, TRACE):
        assert look(base, monkeypatch).notes == []


def test_what_later_versions_bring_is_named_in_a_mixed_search_too(monkeypatch):
    """All fields without effect at once, beside choices that are dropped because of the same subjects."""
    changes = {path: value for _, effect in INERT for path, value in effect.changes.items()}
    changes["search_space.router_mode"] = ["round_robin"]  # kv_router would refuse the admission pins
    notes = look(changed(POOL, changes), monkeypatch).notes
    listed = ", ".join(note for note in notes if "no effect" in note or "dropped" in note)
    assert [path for path in changes if path.split(".")[1] not in listed] == ["search_space.router_mode"]


def test_the_documentation_says_what_comes_later():
    """Fields that act in no way yet are marked in docs/configuration.md, in the table of their section."""
    text = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    for model, heading in (("SearchSpace", "search_space"), ("Workload", "workload")):
        section = text.split(f"\n### {heading}\n")[1].split("\n### ")[0]
        lines = {line.split("`")[1]: line for line in section.splitlines() if line.startswith("| `")}
        for name, effects in TABLE[model].items():
            acts = any(isinstance(effect, Acts) or effect.why is Why.ONE_VALUE for effect in effects)
            assert acts or "not simulated yet" in lines[name], name
