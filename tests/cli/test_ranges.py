from __future__ import annotations

import argparse

import pytest

from aisimulate.cli.ranges import one_of, some_of, whole_number, whole_numbers


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("8", (8,)),
        ("0", (0,)),
        ("1,8,64", (1, 8, 64)),
        ("8,1,8", (8, 1)),
        ("1..8", (1, 2, 4, 8)),
        ("3..20", (3, 6, 12, 20)),
        ("4..4", (4,)),
        ("4..7", (4, 7)),
        ("1,16..64,100", (1, 16, 32, 64, 100)),
    ],
)
def test_values(text, values):
    assert whole_numbers(text) == values


@pytest.mark.parametrize(
    "text", ["", ",", "1,", "x", "-1", "1.5", "8..2", "0..4", "1..", "..4", "1...4", "9" * 19]
)
def test_what_is_no_number_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        whole_numbers(text)


def test_names():
    assert one_of(("table", "json"))("json") == "json"
    assert some_of(("a", "b"))("b,a,b") == ("b", "a")
    with pytest.raises(argparse.ArgumentTypeError, match="did you mean 'json'"):
        one_of(("table", "json"))("jsn")
    assert whole_number("12") == 12
