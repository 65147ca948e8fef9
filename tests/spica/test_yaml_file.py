"""YAML files: read as YAML 1.2, of limited size, and refused by line."""

from itertools import pairwise

import pytest
import yaml
from pydantic import ValidationError
from spica_configs import make_config

from aisimulate.config.yaml_file import load_yaml
from aisimulate.spica.config import SmartSearchConfig


def write(tmp_path, text):
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "nested more than 100 deep"),
        ("{a: " * 3000, "nested more than 100 deep"),
        ("x: !!bool maybe", "'maybe' is not true or false"),
        ("x: !!int foo", "'foo' is not a whole number"),
        ("x: !!float x", "'x' is not a number"),
        ("x: !!null x", "'x' is not null"),
        ("x: " + "9" * 5000, "is not a whole number of at most 400 digits"),
        ("x: 010", "'010' is not a whole number of at most 400 digits, without a leading 0"),
        ("1: x", "the key '1' is read as int, not as a name"),
        ("null: x", "the key 'null' is read as null"),
        ("true: x", "the key 'true' is read as bool"),
        ("? [a]\n: x", "a key must be a name"),
        ("x: !!set {a}", "the tag !!set is not supported"),
        ("x: !!binary aa", "the tag !!binary is not supported"),
        ("x: !!timestamp 2020-01-01", "the tag !!timestamp is not supported"),
        ('x: "\\ud800"', "half of a surrogate pair"),
        ("<<: 3", "<< takes a mapping or a list of mappings"),
        ("<<: [{a: 1}, b]", "<< takes a mapping or a list of mappings"),
        ("x: <<", "the tag !!merge is not supported"),
        ("x: &a [*a]", "an alias stands inside what it repeats"),
        ("x: &a {<<: *a}", "an alias stands inside what it repeats"),
        ("x: [" + "1, " * 100_000 + "]", "more than 100000 values"),
    ],
)
def test_yaml_that_is_refused_by_line(tmp_path, text, problem):
    path = write(tmp_path, text)
    with pytest.raises(yaml.YAMLError) as caught:
        SmartSearchConfig.from_yaml(path)
    message = " ".join(str(caught.value).split())
    assert problem in message
    assert f'in "{path}", line 1' in message or "line 1, column" in message


@pytest.mark.parametrize("repeat", ["[{}]", "{{<<: [{}]}}"])
def test_an_alias_bomb_is_refused_before_it_is_expanded(tmp_path, repeat):
    lines = ["a: &a {x: 1, y: 2}"]
    for old, new in pairwise("abcdefghij"):
        lines.append(f"{new}: &{new} " + repeat.format(", ".join([f"*{old}"] * 10)))
    with pytest.raises(yaml.YAMLError, match="more than 100000 values, aliases counted"):
        SmartSearchConfig.from_yaml(write(tmp_path, "\n".join(lines)))


def test_a_chain_of_aliases_is_as_deep_as_it_expands(tmp_path):
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 300)]
    with pytest.raises(yaml.YAMLError, match="nested more than 100 deep, aliases followed"):
        SmartSearchConfig.from_yaml(write(tmp_path, "\n".join(lines)))


def test_yaml_is_read_as_its_version_1_2(tmp_path):
    text = """
      texts: [on, No, yes, off, 1:30, 2020-01-01, 2020-13-45, "010", =]
      numbers: [12, -3, +4, 0, 0x1F, 1e5, 1.5e-3, .5, 1., -.inf]
      others: [true, False, null, ~, ]
      merged: {<<: {a: 1, b: 1}, a: 2}
      on: 1
      "1": 2
    """
    assert load_yaml(write(tmp_path, text)) == {
        "texts": ["on", "No", "yes", "off", "1:30", "2020-01-01", "2020-13-45", "010", "="],
        "numbers": [12, -3, 4, 0, 31, 1e5, 0.0015, 0.5, 1.0, float("-inf")],
        "others": [True, False, None, None],
        "merged": {"a": 2, "b": 1},
        "on": 1,
        "1": 2,
    }


def test_a_merged_key_may_be_overridden_and_merged_again(tmp_path):
    text = "top: {deep: {b: &b {<<: &a {x: 1}, x: 2}}}\nlast: {<<: *b, y: 3}\n"
    assert load_yaml(write(tmp_path, text))["last"] == {"x": 2, "y": 3}


def test_the_first_of_several_merged_mappings_wins(tmp_path):
    text = "a: &a {x: 1, long: 1}\nb: &b {x: 2, long: 2, z: 2}\nc: {<<: [*a, *b]}\n"
    assert load_yaml(write(tmp_path, text))["c"] == {"x": 1, "long": 1, "z": 2}


def test_old_words_for_true_are_refused_with_a_hint():
    policy = {
        "enable_throughput_scaling": "on",
        "enable_load_scaling": False,
        "throughput_adjustment_interval_seconds": 5,
        "load_adjustment_interval_seconds": None,
    }
    with pytest.raises(ValidationError, match=r"must be true or false, got 'on'; YAML 1\.2 reads it"):
        make_config({"planner_scaling_policy": [policy]})
