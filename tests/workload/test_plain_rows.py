"""Numbers of many rows are read at once only where reading each row as JSON gives the same."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisimulate.workload.plain import PLAIN_FIELDS
from aisimulate.workload.plain_rows import plain_rows

number = st.one_of(
    st.integers(0, 12), st.integers(0, 2**64 - 1), st.sampled_from([10**7, 10**8, 10**16, 10**19, 2**64 - 1])
)
row = st.tuples(number, number, number, st.lists(number, min_size=1, max_size=4))
spellings = st.sampled_from([(", ", ": "), (",", ":")])
edit = st.tuples(
    st.integers(0, 400), st.integers(0, 3), st.sampled_from([*b' ,:[]{}"\n0123456789-.e\r', *b"ht_"])
)


def spelled(rows, separators):
    lines = [json.dumps(dict(zip(PLAIN_FIELDS, each, strict=True)), separators=separators) for each in rows]
    return "".join(line + "\n" for line in lines).encode()


def read_as_json(text):
    """Read rows of the usual fields in their usual order; None if one is something else."""
    rows = []
    for line in text.decode().split("\n")[:-1]:
        try:
            pairs = json.loads(line, object_pairs_hook=list)
        except ValueError:
            return None
        if not isinstance(pairs, list) or [pair[0] for pair in pairs] != list(PLAIN_FIELDS):
            return None
        rows.append(tuple(value for _, value in pairs))
    return rows


def as_rows(found):
    ids, rows = found.ids.tolist(), []
    columns = found.times_ms.tolist(), found.inputs.tolist(), found.outputs.tolist()
    for *numbers, count in zip(*columns, found.id_counts.tolist(), strict=True):
        rows.append((*numbers, ids[:count]))
        del ids[:count]
    assert not ids
    return rows


@given(st.lists(row, min_size=1, max_size=4), spellings)
def test_plain_rows_are_read(rows, separators):
    assert as_rows(plain_rows(spelled(rows, separators))) == rows


@settings(max_examples=400)
@given(st.lists(row, min_size=1, max_size=3), spellings, st.lists(edit, min_size=1, max_size=3))
def test_nothing_is_taken_for_plain_rows_that_is_not(rows, separators, edits):
    text = bytearray(spelled(rows, separators))
    for place, width, code in edits:
        text[place % len(text) : place % len(text) + width] = bytes([code])
    found = plain_rows(bytes(text))
    if found is not None:
        assert as_rows(found) == read_as_json(bytes(text))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"{}\n",
        b'{"timestamp": ',
        b'{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4]}',
        b'{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": []}\n',
        b'{"timestamp": 01, "input_length": 2, "output_length": 3, "hash_ids": [4]}\n',
        b'{"timestamp": 1, "inp2ut_length": , "output_length": 3, "hash_ids": [4]}\n',
        b'{"timestamp": , 1"input_length": , 2"output_length": , 3"hash_ids": []}4\n',
        b'{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [18446744073709551616]}\n',
        b'{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [100000000000000000000]}\n',
        b'{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4]}\n\n',
        b'{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4]}]}\n',
        b'{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4,5, 6]}\n',
        b'{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4, 5-6]}\n',
        b'{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4, -5]}\n',
        b'{"timestamp": 1, "input_length": 2]}\n{"timestamp": 1, "output_length": 3, "hash_ids": [4]}\n',
    ],
    ids=[
        "empty",
        "blank",
        "no fields",
        "cut",
        "unended",
        "no ids",
        "octal",
        "one moved",
        "all moved",
        "65 bits",
        "21 digits",
        "blank last",
        "two ends",
        "no space",
        "dash",
        "negative",
        "cut row",
    ],
)
def test_what_is_not_plain_is_left_alone(text):
    assert plain_rows(text) is None
