"""Sessions from the `traffic` object of a payload (spec 02 sections 1.5, 2.1, 2.6 and 3)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from .content import Token, cut_blocks
from .stream import Stream, poisson_arrivals_ms

SYNTHETIC_SEED = 0


@dataclass
class Turn:
    """One prompt; `output` tokens are those to emit, None for tokens that nobody shares."""

    tokens: list[Token]
    output_length: int
    output: list[Token] | None = None
    delay_ms: float = 0.0


@dataclass
class Session:
    """Turns served one after the other; `arrival_ms` counts in open loop only."""

    session_id: str
    arrival_ms: float
    turns: list[Turn] = field(default_factory=list)


@dataclass
class Traffic:
    """Sessions in file order, the closed-loop cap, and whether prompts accumulate the session's history."""

    sessions: list[Session]
    cap: int | None
    accumulate: bool


def read_traffic(traffic: dict[str, Any], engine: dict[str, Any], workers: int) -> Traffic:
    """Build the sessions that a payload asks for."""
    if traffic.get("trace_format") == "applied_compute_agentic":
        return Traffic(_tool_sessions(traffic), traffic.get("replay_concurrency"), accumulate=False)
    if traffic["source_type"] == "trace":
        accumulate = traffic.get("trace_format") == "mooncake-delta"
        return Traffic(_trace_sessions(traffic), traffic.get("replay_concurrency"), accumulate)
    cap = traffic.get("concurrency")
    if traffic.get("load_type") == "kv_capacity_fraction":
        cap = _kv_cap(traffic, engine, workers)
    sessions = _synthetic_sessions(traffic, engine["rank"]["block_size"], cap)
    return Traffic(sessions, cap, traffic["source_type"] == "synthetic-session")


# Traces ---------------------------------------------------------------------------------------------


def _trace_sessions(traffic: dict[str, Any]) -> list[Session]:
    block = traffic.get("trace_block_size") or 512
    ratio = traffic.get("arrival_speedup_ratio") or 1.0
    path = (traffic.get("trace_paths") or [traffic.get("trace_path")])[0]
    interned: dict[int, int] = {}
    sessions: dict[str, Session] = {}
    last_ms: dict[str, float] = {}
    for line, text in enumerate(Path(path).read_text().splitlines(), 1):
        row = json.loads(text)
        name = row.get("session_id") or f"request_{line}"
        timestamp, delay = _first(row, "timestamp", "created_time"), _first(row, "delay", "delay_ms")
        turn = _trace_turn(row, block, interned)
        if name not in sessions:
            sessions[name] = Session(name, timestamp or 0.0)
        elif delay is not None:
            turn.delay_ms = delay / ratio
        elif timestamp is not None:
            turn.delay_ms = (timestamp - last_ms[name]) / ratio
        if timestamp is not None:
            last_ms[name] = timestamp
        sessions[name].turns.append(turn)
    start = min(session.arrival_ms for session in sessions.values())
    for session in sessions.values():
        session.arrival_ms = (session.arrival_ms - start) / ratio
    return list(sessions.values())


def _trace_turn(row: dict[str, Any], block: int, interned: dict[int, int]) -> Turn:
    ids: list[Token] = [interned.setdefault(raw, len(interned)) for raw in row["hash_ids"]]
    length = _first(row, "input_length", "input_tokens")
    tokens = cut_blocks(ids, block, len(ids) * block if length is None else length)
    return Turn(tokens, _first(row, "output_length", "output_tokens"), row.get("output_token_ids"))


def _first(row: dict[str, Any], *names: str) -> Any:
    """The value of a field under any of its names."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def _tool_sessions(traffic: dict[str, Any]) -> list[Session]:
    """Sessions of whole prompts that grow by an answer and a tool's output, block by block."""
    block, sessions = traffic.get("trace_block_size") or 512, []
    ratio = traffic.get("arrival_speedup_ratio") or 1.0
    for line, text in enumerate(Path(traffic["trace_paths"][0]).read_text().splitlines(), 1):
        row = json.loads(text)
        session = Session(f"applied_compute_agentic_session_{line}", 0.0)
        length, delay_ms = row["input_prompt_length"], 0.0
        answers = [*row["assistant_response_length"], row["final_assistant_response_length"]]
        tools = zip(row["tool_call_output_length"], row["tool_call_latency"], strict=True)
        for answer, (tool, latency_s) in zip(answers, [*tools, (0, 0)], strict=True):
            ids: list[Token] = [("own", line, k) for k in range(-(-length // block))]
            session.turns.append(Turn(cut_blocks(ids, block, length), answer, delay_ms=delay_ms / ratio))
            length, delay_ms = length + answer + tool, 1000 * latency_s
        sessions.append(session)
    return sessions


# Synthetic ------------------------------------------------------------------------------------------


def _kv_cap(traffic: dict[str, Any], engine: dict[str, Any], workers: int) -> int:
    rank = engine["rank"]
    tokens = rank["num_gpu_blocks"] * rank["block_size"] * engine.get("dp_size", 1) * workers
    capacity = tokens // (traffic["isl"] + traffic["osl"] // 2)
    return max(1, math.floor(traffic["kv_load_ratio"] * capacity))


def _synthetic_sessions(traffic: dict[str, Any], block: int, cap: int | None) -> list[Session]:
    number = traffic.get("request_count")
    if number is None:
        load = cap or traffic.get("request_rate") or 1000.0 / traffic["arrival_interval_ms"]
        number = max(1, math.floor(traffic["num_request_ratio"] * load + 0.5))
    turns = (traffic.get("turns_per_session") or 4) if traffic["source_type"] == "synthetic-session" else 1
    delay_ms = max(0.0, traffic.get("inter_turn_delay_ms") or 0.0)
    groups, ratio = traffic.get("num_prefix_groups") or 0, traffic.get("shared_prefix_ratio") or 0.0
    blocks = -(-traffic["isl"] // block)
    shared = min(blocks, math.floor(blocks * ratio + 0.5))
    stream, fresh, sessions = Stream(SYNTHETIC_SEED), count(), []
    for index, arrival_ms in enumerate(_arrivals_ms(traffic, number, cap)):
        session = Session(f"session_{index}", arrival_ms)
        group = stream.below(groups) if groups and ratio > 0 else None
        prefix: list[Token] = [] if group is None else [("group", group, k) for k in range(shared)]
        for turn in range(turns):
            ids: list[Token] = prefix + [("fresh", next(fresh)) for _ in range(blocks - len(prefix))]
            tokens = cut_blocks(ids, block, traffic["isl"])
            session.turns.append(Turn(tokens, traffic["osl"], delay_ms=delay_ms if turn else 0.0))
        sessions.append(session)
    return sessions


def _arrivals_ms(traffic: dict[str, Any], number: int, cap: int | None) -> list[float]:
    load = traffic.get("load_type") or "concurrency"
    if cap is not None or load in ("concurrency", "kv_capacity_fraction"):
        return [0.0] * number
    if load == "poisson":
        return poisson_arrivals_ms(traffic.get("arrival_seed", 42), traffic["request_rate"], number)
    interval = traffic.get("arrival_interval_ms")
    rate = traffic.get("request_rate") or 1000.0 / interval
    gap = 1000.0 / rate
    instants, now = [], 0.0
    for _ in range(number):
        instants.append(now)
        now += gap
    return instants
