"""Values in messages: short, on one line, and never written out in full to be cut."""

import pytest

from aisimulate.core.errors import InputError, nearest
from aisimulate.core.shown import cut, show, show_path, show_python, visible


class Endless(dict):
    """A mapping that fails the test when it is read to its end."""

    def items(self):
        yield from ((f"key{index}", index) for index in range(50))
        raise AssertionError("read to the end")


@pytest.mark.parametrize(
    ("value", "json_text", "python_text"),
    [
        ({"a": [1, None, True, 2.5]}, '{"a": [1, null, true, 2.5]}', "{'a': [1, None, True, 2.5]}"),
        ((1, "x"), '[1, "x"]', "[1, 'x']"),
        ({1: {}}, "{1: {}}", "{1: {}}"),
        ("a\nb\x1b", "'a\\nb\\x1b'", "'a\\nb\\x1b'"),
        ("\ud800\u2028", "'\\ud800\\u2028'", "'\\ud800\\u2028'"),
        (["\n"], '["\\n"]', "['\\n']"),
        ([10**5000], "[a huge int]", "[a huge int]"),
        (b"x" * 1000, "b'" + "x" * 55 + "...", "b'" + "x" * 55 + "..."),
    ],
)
def test_a_value_is_spelled_on_one_line(value, json_text, python_text):
    assert (show(value), show_python(value)) == (json_text, python_text)


def test_a_huge_value_is_not_written_out():
    assert show(Endless()).endswith("...")
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert show(deep) == "[" * 57 + "..."
    assert show_python(["x" * 10**6] * 10**6) == "['" + "x" * 55 + "..."


def test_a_value_that_holds_itself_is_spelled():
    value = {}
    value["a"] = value
    assert show(value).startswith('{"a": {"a": {')


def test_paths_may_be_longer():
    assert show_path("a" * 200) == repr("a" * 200)
    assert show_path("a\n" * 500).endswith("...") and len(show_path("a" * 500)) == 240


def test_the_invisible_is_spelled_out():
    assert visible("a\tb \u00e9\x00") == "a\\tb \u00e9\\x00"
    assert (cut("abcdef", 6), cut("abcdefg", 6)) == ("abcdef", "abc...")


def test_an_error_is_always_one_line_of_limited_length():
    assert str(InputError("a\r\nb\x1b[31m")) == "a\\r\\nb\\x1b[31m"
    assert len(str(InputError("x" * 10**6))) == 4000


def test_a_text_is_no_misspelled_name():
    assert nearest("x" * 10**7, ["x"]) == ""
