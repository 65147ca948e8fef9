"""Looking up trace formats by name."""

from pathlib import Path
from typing import get_args

import pytest

from aisimulate.config.traffic import RuntimeTraffic, TraceFormat
from aisimulate.core.errors import InputError
from aisimulate.workload.formats import (
    ACCUMULATING_FORMATS,
    TRACE_FORMATS,
    check_format,
    load_trace,
)

TRACE = Path(__file__).parent.parent / "data" / "traces" / "aliases.jsonl"


def test_mooncake_is_read():
    (session,) = load_trace([TRACE], "mooncake", 4).sessions
    assert [turn.input_tokens for turn in session.turns] == [8, 8]


def test_an_unknown_format_lists_the_legal_ones_and_the_nearest():
    with pytest.raises(InputError) as caught:
        check_format("moonkake")
    message = str(caught.value)
    assert all(name in message for name in TRACE_FORMATS)
    assert message.endswith("; did you mean 'mooncake'?")
    with pytest.raises(InputError, match="trace format 'csv' is unknown"):
        check_format("csv")


@pytest.mark.parametrize("block_tokens", [0, -4, 4.0, True])
def test_the_block_size_must_be_a_positive_whole_number(block_tokens):
    with pytest.raises(InputError, match=f"trace_block_size must be .* at least 1, got {block_tokens}"):
        load_trace([TRACE], "mooncake", block_tokens)


def test_a_single_file_format_takes_one_file():
    with pytest.raises(InputError, match="'mooncake' takes exactly one file, got 2"):
        load_trace([TRACE, TRACE], "mooncake", 4)
    with pytest.raises(InputError, match="at least one path"):
        load_trace([], "mooncake", 4)


def test_the_configuration_names_the_same_formats():
    assert get_args(TraceFormat) == TRACE_FORMATS
    traces = {
        name: RuntimeTraffic(source_type="trace", trace_path="t", trace_format=name) for name in TRACE_FORMATS
    }
    assert {name for name, traffic in traces.items() if traffic.accumulates} == ACCUMULATING_FORMATS
    text = (Path(__file__).parents[2] / "docs" / "traces.md").read_text()
    assert [name for name in TRACE_FORMATS if f"\n## {name}\n" not in text] == []
