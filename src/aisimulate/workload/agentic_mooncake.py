"""Reader of agentic Mooncake traces: a header and a row per request, or rows alone (spec 02 section 2.2)."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.core.limits import MAX_REQUESTS
from aisimulate.workload.graph import (
    COMPLETION,
    RELATIONS,
    SPAWN,
    TRIGGERS,
    Dependency,
    GraphSource,
    Node,
    node_sessions,
)
from aisimulate.workload.graph_checks import build_graph
from aisimulate.workload.graph_legacy import LegacyRows
from aisimulate.workload.graph_rows import choice, instant_ms, name_of, needed_instant_ms, read_turn
from aisimulate.workload.jsonl import Row, UnknownFields, parse_line
from aisimulate.workload.limits import MAX_TOKENS, shown
from aisimulate.workload.lines import text_lines
from aisimulate.workload.loaded import LoadedTrace, graph_trace
from aisimulate.workload.problems import wrong_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = "dynamo.agentic_mooncake"
VERSION = 2

_HEADER_FIELDS = ("schema", "version", "block_size", "hash_id_scope", "source")
_ROW_FIELDS = (
    "request_id",
    "play_id",
    "session_id",
    "model",
    "input_length",
    "input_tokens",
    "output_length",
    "output_tokens",
    "hash_ids",
    "not_before_ms",
    "output_token_ids",
    "source_play_ordinal",
    "recorded_api_time_ms",
    "priority",
    "strict_priority",
    "policy_class",
    "dependencies",
)


def read_agentic_mooncake(path: Path, block_tokens: int | None) -> LoadedTrace:
    """Read a trace of version 2, which begins with a header, or of the flat rows before it.

    The header says the block size; `block_tokens` counts where there is no header. Raises InputError naming
    file, line, field, value and rule.
    """
    lines = text_lines(path)
    number, line = next(lines)
    first = Row(path, number, parse_line(path, number, line))
    if "schema" in first.names:
        return _read_version_2(path, first, lines, block_tokens)
    flat = LegacyRows(path, block_tokens)
    for row_number, row_line in chain([(number, line)], lines):
        try:
            flat.add(Row(path, row_number, parse_line(path, row_number, row_line)))
        except InputError as error:
            flat.leave_out(error)
    return flat.finish()


def _read_version_2(
    path: Path, header: Row, lines: Iterator[tuple[int, bytes]], block_tokens: int | None
) -> LoadedTrace:
    authored_tokens, source = _read_header(header)
    unknown = UnknownFields(path, _ROW_FIELDS)
    nodes: list[Node] = []
    complete = True
    for number, line in lines:
        try:
            row = Row(path, number, parse_line(path, number, line))
            unknown.look(row)
            nodes.append(_node(row, authored_tokens))
        except InputError as error:
            wrong_row(error)
            complete = False
    if not nodes and complete:
        raise header.error("the file contains no requests, only a header")
    unknown_in_header = UnknownFields(path, _HEADER_FIELDS)
    unknown_in_header.look(header)
    notes = unknown_in_header.notes() + unknown.notes()
    if block_tokens not in (None, authored_tokens):
        notes.append(
            f"{header.place}: the trace's own block_size {authored_tokens} counts, not trace_block_size "
            f"{block_tokens}"
        )
    if not complete:
        # Only when all problems are asked for: rows that are left out would make others look wrong.
        return LoadedTrace(node_sessions(nodes), authored_tokens, notes)
    return graph_trace(build_graph(authored_tokens, source, nodes), notes)


def _read_header(header: Row) -> tuple[int, GraphSource]:
    """Check the header; return the block size and the source it names."""
    for name, legal in (("schema", SCHEMA), ("version", VERSION), ("hash_id_scope", "local")):
        value = header.given(name)
        if value != legal or type(value) is not type(legal):
            raise header.wrong(name, value, f"must be {legal!r}")
    header.given("block_size")
    block_tokens = header.whole("block_size", low=1, high=MAX_TOKENS) or 0
    source = header.needed("source")
    return block_tokens, GraphSource(name_of(source, "format"), name_of(source, "digest"))


def _node(row: Row, block_tokens: int) -> Node:
    turn = read_turn(row, block_tokens)
    return Node(
        request_id=turn.request_id or "",
        play_id=name_of(row, "play_id"),
        session_id=name_of(row, "session_id"),
        model=name_of(row, "model"),
        turn=turn,
        not_before_ms=needed_instant_ms(row, "not_before_ms"),
        dependencies=[_dependency(edge) for edge in row.rows("dependencies")],
        place=row.place,
        ordinal=row.whole("source_play_ordinal", low=0, high=MAX_REQUESTS),
        api_time_ms=instant_ms(row, "recorded_api_time_ms"),
    )


def _dependency(edge: Row) -> Dependency:
    trigger = choice(edge, "trigger", TRIGGERS)
    relation = choice(edge, "relation", RELATIONS)
    if trigger != COMPLETION and relation != SPAWN:
        raise edge.wrong("relation", relation, f"only {SPAWN!r} may have the trigger {shown(trigger)}")
    return Dependency(name_of(edge, "request_id"), trigger, needed_instant_ms(edge, "delay_ms"), relation)
