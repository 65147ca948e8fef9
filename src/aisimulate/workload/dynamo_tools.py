"""Tool calls of a Dynamo trace that started agents of their own (spec 02 section 2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisimulate.workload.graph_rows import choice, instant_ms, name_of
from aisimulate.workload.limits import shown

if TYPE_CHECKING:
    from aisimulate.workload.dynamo_records import RequestEnd, ToolEnd
    from aisimulate.workload.jsonl import Row

_MODES = ("blocking", "background")


@dataclass(slots=True)
class ToolCall:
    """A call by the request `source`; its result went to `consumer`, if anybody waited for it."""

    row: Row
    session_id: str
    source: RequestEnd
    consumer: RequestEnd | None

    def check_parent(self, parent: str) -> None:
        """Raise InputError when the call was not made by the parent of the session it started."""
        if self.session_id != parent:
            raise self.row.error(
                f"agent_context.session_id {shown(self.session_id)}: the session that this call started has "
                f"the parent {shown(parent)}"
            )


def read_tool_calls(tools: list[ToolEnd], requests: list[RequestEnd]) -> dict[str, ToolCall]:
    """Read the calls that started a session of the trace, by that session.

    Raises InputError naming file, line, field, value and rule.
    """
    by_id = {request.request_id: request for request in requests}
    sessions = {request.session_id for request in requests}
    calls: dict[str, ToolCall] = {}
    for tool in tools:
        context, call = tool.row.inner("agent_context"), tool.row.inner("tool")
        if context is None or call is None:
            continue
        session_id = _check(context, call)
        claude = call.inner("claude")
        if claude is None:
            continue
        started = _started(tool.row, claude, session_id, by_id)
        child = claude.text("child_session_id")
        if child is None or child not in sessions:
            continue
        first = calls.setdefault(child, started)
        if first is not started:
            raise claude.wrong("child_session_id", child, f"already started by the call at {first.row.place}")
    return calls


def _check(context: Row, call: Row) -> str:
    """Check the fields that every tool call has; return its session."""
    for name in ("tool_call_id", "tool_class"):
        name_of(call, name)
    instant_ms(call, "duration_ms")
    start_ms, end_ms = instant_ms(call, "started_at_unix_ms"), instant_ms(call, "ended_at_unix_ms")
    if start_ms is not None and end_ms is not None and end_ms < start_ms:
        raise call.wrong("ended_at_unix_ms", end_ms, f"must not be before started_at_unix_ms {start_ms:g}")
    return name_of(context, "session_id")


def _started(row: Row, claude: Row, session_id: str, by_id: dict[str, RequestEnd]) -> ToolCall:
    choice(claude, "execution_mode", _MODES)
    source = _request(claude, "source_request_id", session_id, by_id)
    if claude.text("consumer_request_id") is None:
        return ToolCall(row, session_id, source, None)
    return ToolCall(row, session_id, source, _request(claude, "consumer_request_id", session_id, by_id))


def _request(claude: Row, field: str, session_id: str, by_id: dict[str, RequestEnd]) -> RequestEnd:
    request_id = name_of(claude, field)
    request = by_id.get(request_id)
    if request is None:
        raise claude.wrong(field, request_id, "the trace has no such request")
    if request.session_id != session_id:
        raise claude.wrong(
            field,
            request_id,
            f"belongs to session {shown(request.session_id)}, the call to {shown(session_id)}",
        )
    return request
