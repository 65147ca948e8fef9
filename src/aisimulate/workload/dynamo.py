"""Reader of Dynamo request traces (spec 02 section 2.4): what a deployment served, replayed elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session, Turn
from aisimulate.workload.dynamo_agentic import lower_agents
from aisimulate.workload.dynamo_records import read_records
from aisimulate.workload.loaded import LoadedTrace, graph_trace
from aisimulate.workload.time_scale import scale_doubts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from aisimulate.workload.dynamo_agentic import lower_agents
from aisimulate.workload.dynamo_records import RequestEnd


def read_dynamo(paths: Sequence[Path], block_tokens: int | None) -> LoadedTrace:
    """Read a trace: requests without agent_context are sessions of one turn, `request_<n>`, others a graph.

    Requests are ordered by start, end and id over all files, and start when they were received. The trace
    says its block size; `block_tokens` must agree with it. Raises InputError naming file, line, field, value
    and rule.
    """
    records = read_records(paths)
    first = records.requests[0]
    if block_tokens is not None and block_tokens != first.block_tokens:
        raise InputError(
            f"trace_block_size {block_tokens} does not match the block size {first.block_tokens} that the "
            f"Dynamo trace says ({first.place})"
        )
    if first.session_id is not None:
        return graph_trace(lower_agents(records), records.notes)
    doubts = scale_doubts((request.place, request.start_ms) for request in records.requests)
    sessions = [_session(number, request) for number, request in enumerate(records.requests, 1)]
    return LoadedTrace(sessions, first.block_tokens, records.notes, doubts=doubts)


def _session(number: int, request: RequestEnd) -> Session:
    turn = Turn(request.input_tokens, request.output_tokens, request.hashes)
    return Session(f"request_{number}", [turn], request.start_ms)
