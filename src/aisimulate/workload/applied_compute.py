"""Reader of Applied Compute agentic traces: one JSON object per session (spec 02 section 2.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session, Turn
from aisimulate.workload.block_ids import packed
from aisimulate.workload.jsonl import Row, UnknownFields, parse_line
from aisimulate.workload.limits import MAX_INSTANT_MS, MAX_PROMPT_TOKENS, MAX_TOKENS, shown
from aisimulate.workload.lines import text_lines
from aisimulate.workload.loaded import LoadedTrace
from aisimulate.workload.problems import wrong_row

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = (
    "num_turns",
    "input_prompt_length",
    "assistant_response_length",
    "tool_call_output_length",
    "tool_call_latency",
    "final_assistant_response_length",
)
"""Everything a row may say."""


def read_applied_compute(path: Path, block_tokens: int) -> LoadedTrace:
    """Read a trace into sessions of `num_turns` + 1 turns with whole prompts.

    A turn's prompt is the previous prompt, answer and tool output; its think time is the tool's latency.
    Sessions share no content and have no arrival, so only a closed loop can replay them. Raises InputError
    naming file, line, field, value and rule.
    """
    sessions: list[Session] = []
    unknown = UnknownFields(path, FIELDS)
    untimed: str | None = None
    next_block = 0
    for number, line in text_lines(path):
        try:
            row = Row(path, number, parse_line(path, number, line))
            unknown.look(row)
            turns = _turns(row, block_tokens, next_block)
        except InputError as error:
            wrong_row(error)
            continue
        next_block += len(turns[-1].block_ids or ())
        session = Session(f"applied_compute_agentic_session_{number}", turns)
        sessions.append(session)
        untimed = untimed or f"{row.place}: session {shown(session.session_id)}"
    return LoadedTrace(sessions, block_tokens, unknown.notes(), untimed)


def _turns(row: Row, block_tokens: int, first_block: int) -> list[Turn]:
    """Expand one session; its content blocks are numbered from `first_block`."""
    count = _required_whole(row, "num_turns", low=0)
    answers = _wholes(row, "assistant_response_length", count)
    tools = _wholes(row, "tool_call_output_length", count)
    delays_ms = [0.0, *_latencies_ms(row, count)]
    answers.append(_required_whole(row, "final_assistant_response_length", low=0))
    prompts = [_required_whole(row, "input_prompt_length", low=1)]
    for answer, tool in zip(answers, tools, strict=False):
        prompts.append(prompts[-1] + answer + tool)
    if prompts[-1] > MAX_PROMPT_TOKENS:
        raise row.error(f"the last prompt has {prompts[-1]} tokens: must not exceed {MAX_PROMPT_TOKENS}")
    blocks = packed(range(first_block, first_block - (-prompts[-1] // block_tokens)))
    return [
        Turn(prompt, answer, blocks[: -(-prompt // block_tokens)], delay_ms=delay_ms)
        for prompt, answer, delay_ms in zip(prompts, answers, delays_ms, strict=True)
    ]


def _required_whole(row: Row, name: str, low: int) -> int:
    row.given(name)
    return row.whole(name, low=low, high=MAX_TOKENS) or 0


def _wholes(row: Row, name: str, count: int) -> list[int]:
    row.given(name)
    values = row.wholes(name, high=MAX_TOKENS) or []
    _check_count(row, name, len(values), count)
    return list(values)


def _latencies_ms(row: Row, count: int) -> list[float]:
    """Read the latencies of the tools, given in seconds."""
    name = "tool_call_latency"
    values = row.given(name)
    if not isinstance(values, list):
        raise row.error(f"{name} {shown(values)}: must be a list of numbers")
    _check_count(row, name, len(values), count)
    for position, value in enumerate(values):
        if type(value) not in (int, float) or not 0 <= value <= MAX_INSTANT_MS / 1000:
            rule = f"must be a number of seconds from 0 to {MAX_INSTANT_MS / 1000:g}"
            raise row.error(f"{name}[{position}] {shown(value)}: {rule}")
    return [value * 1000.0 for value in values]


def _check_count(row: Row, name: str, length: int, count: int) -> None:
    if length != count:
        raise row.error(f"{name} of length {length}: must have num_turns {count} values")
