"""`--set` replaces values of a file before it is validated."""

from __future__ import annotations

import json

import pytest
import yaml

from aisimulate.cli import screen, simulate, spica
from aisimulate.cli.overrides import with_overrides
from aisimulate.core.errors import InputError
from tests.page.made_run import asked

DOCUMENT = {"a": {"b": 1, "c": [1, {"d": 2}]}, "e": None}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("a.b=2", {"a": {"b": 2, "c": [1, {"d": 2}]}, "e": None}),
        ("a.c.1.d=[x, 1.5, true]", {"a": {"b": 1, "c": [1, {"d": ["x", 1.5, True]}]}, "e": None}),
        ("a.c.0=zero", {"a": {"b": 1, "c": ["zero", {"d": 2}]}, "e": None}),
        ("a.b=null", {"a": {"c": [1, {"d": 2}]}, "e": None}),
        ("e.f.g={h: no}", {"a": {"b": 1, "c": [1, {"d": 2}]}, "e": {"f": {"g": {"h": "no"}}}}),
        ("a=x=y", {"a": "x=y", "e": None}),
    ],
)
def test_what_it_replaces(override, expected):
    before = json.dumps(DOCUMENT)
    assert with_overrides(DOCUMENT, [override]) == expected
    assert json.dumps(DOCUMENT) == before, "the file's own values stay"


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("a.b", "expected PATH=VALUE"),
        ("=1", "expected PATH=VALUE"),
        ("a..b=1", "expected PATH=VALUE"),
        ("a.b.c=1", "there are no fields below 1"),
        ("a.c.2=1", "a list of 2 has no item '2'"),
        ("a.c.x=1", "a list of 2 has no item 'x'"),
        ("a.b=[1", "the value is no YAML"),
    ],
)
def test_what_it_refuses(override, problem):
    with pytest.raises(InputError, match=f"^--set .*{problem.replace('[', '.')}"):
        with_overrides(DOCUMENT, [override])


@pytest.fixture
def search_file(tmp_path):
    path = tmp_path / "search.yaml"
    path.write_text(yaml.safe_dump(asked().model_dump(mode="json", exclude_unset=True)))
    return path


def test_a_search_is_validated_with_its_overrides(search_file):
    config = spica.load_config(search_file, ["sweep.max_rounds=3", "search_space.backend=[sglang]"])
    assert (config.sweep.max_rounds, config.search_space.backend) == (3, ["sglang"])
    assert config.folder == search_file.parent
    with pytest.raises(InputError, match=r"max_rund.*did you mean.*max_rounds"):
        spica.load_config(search_file, ["sweep.max_rund=3"])


def test_a_screen_takes_them_too(search_file, capsys):
    assert screen.main([str(search_file), "--set", "search_space.gpu_budget=none"]) == 2
    assert "search_space.gpu_budget: 'none'" in capsys.readouterr().err


def test_a_resumed_search_takes_none(capsys):
    assert spica.main(["--resume", "x", "--set", "a=1"]) == 2
    assert "--set: has no effect with --resume" in capsys.readouterr().err


def test_a_payload_takes_them_too(tmp_path):
    path = tmp_path / "payload.json"
    path.write_text('{"spec": {"version": 1}, "traffic": {}}')
    payload = simulate.load_payload(path, ["traffic.isl=16", "spec.version=2"])
    assert payload == {"spec": {"version": 2}, "traffic": {"isl": 16}}
