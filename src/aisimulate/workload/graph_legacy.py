"""Agentic Mooncake rows without a header: every row names the requests it waits for (spec 02 section 2.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.workload.graph import COMPLETION, JOIN, SEQUENCE, Dependency, GraphSource, Node, node_sessions
from aisimulate.workload.graph_checks import build_graph
from aisimulate.workload.graph_rows import instant_ms, read_turn
from aisimulate.workload.jsonl import Row, UnknownFields
from aisimulate.workload.limits import MAX_INSTANT_MS
from aisimulate.workload.loaded import DEFAULT_BLOCK_TOKENS, LoadedTrace, graph_trace
from aisimulate.workload.play_components import name_plays
from aisimulate.workload.problems import wrong_row

if TYPE_CHECKING:
    from pathlib import Path

    from aisimulate.core.errors import InputError

_FIELDS = (
    "request_id",
    "session_id",
    "input_length",
    "input_tokens",
    "output_length",
    "output_tokens",
    "hash_ids",
    "output_token_ids",
    "timestamp",
    "created_time",
    "wait_for",
    "delay",
    "delay_ms",
    "tool_wait_ms",
    "priority",
    "strict_priority",
    "policy_class",
)
# What only rows behind a header may say; without it they would be taken for roots.
_VERSION_2_ONLY = ("dependencies", "play_id", "not_before_ms")


class LegacyRows:
    """Collects the rows of one file."""

    def __init__(self, path: Path, block_tokens: int | None) -> None:
        self._path = path
        self._block_tokens = DEFAULT_BLOCK_TOKENS if block_tokens is None else block_tokens
        self._nodes: list[Node] = []
        self._unknown = UnknownFields(path, _FIELDS)
        self._complete = True

    def add(self, row: Row) -> None:
        """Take one row. Raises InputError naming file, line, field, value and rule."""
        for name in _VERSION_2_ONLY:
            if name in row.names:
                raise row.error(
                    f"{name}: a field of version 2, whose files begin with a header "
                    '({"schema": "dynamo.agentic_mooncake", "version": 2, ...}); this one does not'
                )
        self._unknown.look(row)
        turn = read_turn(row, self._block_tokens)
        dependencies = _dependencies(row)
        timestamp_ms = row.number("timestamp", "created_time", limit=MAX_INSTANT_MS)
        node = Node(
            request_id=turn.request_id or "",
            play_id="",
            session_id=row.text("session_id") or "agentic-session",
            model="unknown",
            turn=turn,
            not_before_ms=0.0 if dependencies else timestamp_ms or 0.0,
            dependencies=dependencies,
            place=row.place,
        )
        if node.not_before_ms < 0:
            raise row.wrong("timestamp", timestamp_ms, "must not be negative")
        self._nodes.append(node)

    def leave_out(self, error: InputError) -> None:
        """Go on without a wrong row where all problems are asked for, else raise what is wrong with it."""
        wrong_row(error)
        self._complete = False

    def finish(self) -> LoadedTrace:
        """Hand over the graph. Raises InputError when the rows do not hang together."""
        if not self._complete:
            # Rows that are left out would make others look wrong.
            return LoadedTrace(node_sessions(self._nodes), self._block_tokens, self._unknown.notes())
        name_plays(self._nodes, "legacy-play")
        source = GraphSource("legacy_agentic_mooncake", f"{self._path}:{len(self._nodes)}")
        graph = build_graph(self._block_tokens, source, self._nodes)
        return graph_trace(graph, self._unknown.notes())


def _dependencies(row: Row) -> list[Dependency]:
    delay_ms = _wait_ms(row)
    sources = _wait_for(row)
    relation = JOIN if len(sources) > 1 else SEQUENCE
    return [Dependency(source, COMPLETION, delay_ms, relation) for source in sources]


def _wait_ms(row: Row) -> float:
    """The time to wait after the last of the requests waited for: think time, and that of a tool."""
    delay_ms = row.number("delay", "delay_ms", limit=MAX_INSTANT_MS)
    if delay_ms is not None and delay_ms < 0:
        raise row.wrong("delay", delay_ms, "must not be negative")
    return (delay_ms or 0.0) + (instant_ms(row, "tool_wait_ms") or 0.0)


def _wait_for(row: Row) -> list[str]:
    _, names = row.value("wait_for")
    if names is None:
        return []
    if not (isinstance(names, list) and all(isinstance(name, str) and name for name in names)):
        raise row.wrong("wait_for", names, "must be a list of request ids")
    return names
