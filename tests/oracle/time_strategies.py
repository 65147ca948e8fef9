"""Scenarios with scaled, halved and linear pass times."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .strategies import Scenario

# A context token costs less than half a nanosecond, so that most passes of a run last alike.
LINEAR = {
    "type": "linear",
    "constant_ms": 3.0,
    "prefill_token_ms": 0.25,
    "decode_ms": 0.125,
    "context_token_ms": 0.00000037,
}
LINEAR_MIXED = LINEAR | {"mixed_decode_ms": 0.25, "decode_ms": 0.0}


@st.composite
def retimed(draw: st.DrawFn, scenarios: st.SearchStrategy[Scenario]) -> Scenario:
    """Give a scenario other pass times than it has."""
    scenario = draw(scenarios)
    spec = scenario.payload["spec"]
    engine = spec["engine"]
    engine = engine | {
        name: engine[name] | {"rank": draw(_rank(engine[name]["rank"], mixes=False))}
        for name in ("prefill", "decode")
        if name in engine
    }
    if "rank" in engine:
        mixes = engine["rank"].get("backend") != "sglang"
        engine = engine | {"rank": draw(_rank(engine["rank"], mixes=mixes))}
    return Scenario(scenario.payload | {"spec": spec | {"engine": engine}}, scenario.rows)


@st.composite
def _rank(draw: st.DrawFn, rank: dict[str, Any], *, mixes: bool) -> dict[str, Any]:
    rank = rank | {
        "prefill_scale": draw(st.sampled_from([1.0, 1.5, 2.0])),
        "decode_scale": draw(st.sampled_from([1.0, 1.17, 0.5])),
    }
    if model := draw(st.sampled_from([None, None, LINEAR, LINEAR_MIXED])):
        rank["timing_model"] = model
    if mixes:
        rank["timing_mode"] = draw(st.sampled_from(["additive", "fused", "half"]))
    return rank
