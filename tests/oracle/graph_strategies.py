"""Hypothesis strategies of small, nasty graphs: forks, joins, barriers, failures, lanes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .strategies import DELAYS_MS, OUTPUTS, ROUND_TIMES, TRACE, Scenario, payload_spec, ranks, timing_models

HEADER = {"schema": "dynamo.agentic_mooncake", "version": 2, "hash_id_scope": "local"}
RELATIONS = ["sequence", "spawn", "join", "replay_barrier"]


@st.composite
def graph_scenarios(draw: st.DrawFn) -> Scenario:
    """One to four plays of up to six requests on one to three workers; some requests are rejected."""
    rank = draw(ranks()) | {
        "max_model_len": draw(st.sampled_from([None, 30, 20])),
        "timing_model": draw(st.one_of(timing_models(), st.just(ROUND_TIMES))),
    }
    block = draw(st.sampled_from([rank["block_size"], 2 * rank["block_size"], rank["block_size"] + 1]))
    header = HEADER | {"block_size": block, "source": {"format": "oracle", "digest": "1"}}
    rows = [row for play in range(draw(st.integers(1, 4))) for row in draw(_play(f"p{play}", block))]
    traffic: dict[str, Any] = {
        "source_type": "trace",
        "trace_paths": [TRACE],
        "trace_format": "agentic_mooncake",
    }
    if draw(st.booleans()):
        traffic["agentic_lanes"] = draw(st.integers(1, 3))
    if not draw(st.integers(0, 3)):
        traffic["arrival_speedup_ratio"] = draw(st.sampled_from([2.0, 0.5]))
    spec = payload_spec(rank, draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2])))
    return Scenario({"spec": spec, "traffic": traffic}, [header, *rows])


@st.composite
def _play(draw: st.DrawFn, play: str, block: int) -> list[dict[str, Any]]:
    """Requests that only wait for earlier ones, under ids in another order."""
    size = draw(st.integers(1, 6))
    # Sessions are named like their requests, so that a record is found by its session.
    names = [f"{play}-{letter}" for letter in draw(st.permutations("abcdef"))[:size]]
    rows = []
    for number, name in enumerate(names):
        length, output = draw(st.integers(1, 40)), draw(st.sampled_from(OUTPUTS[:6]))
        shared = draw(st.integers(0, 4))
        blocks = -(-length // block)
        ids = [k if k < shared else 1000 * (number + 1) + k for k in range(blocks)]
        row = {"request_id": name, "session_id": name, "play_id": play, "model": "m"}
        row |= {"input_length": length, "output_length": output, "hash_ids": ids}
        sources = draw(st.lists(st.sampled_from(names[:number]), max_size=3)) if number else []
        row["dependencies"] = [draw(_edge(source)) for source in sources]
        starts = [0, 0, 0, 2.5, 40.0] if sources else [0, 0, 4.0, 12.25]
        row["not_before_ms"] = draw(st.sampled_from(starts))
        if not draw(st.integers(0, 4)):
            row["output_token_ids"] = [draw(st.integers(0, 3))] * output
        rows.append(row)
    return rows


@st.composite
def _edge(draw: st.DrawFn, source: str) -> dict[str, Any]:
    relation = draw(st.sampled_from(RELATIONS))
    trigger = "dispatch" if relation == "spawn" and draw(st.integers(0, 2)) else "completion"
    delay_ms = draw(st.sampled_from(DELAYS_MS))
    return {"request_id": source, "trigger": trigger, "delay_ms": delay_ms, "relation": relation}
