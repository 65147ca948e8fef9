"""Hypothesis strategies of small, nasty replays: tiny pools, shared prefixes, preemption, sessions, caps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TRACE = "<trace>"
GAPS_MS = [0, 0, 0, 1.5, 4.0, 12.0, 30.0, 33.25]
DELAYS_MS = [0, 0, 0.5, 7.25, 40.0]
OUTPUTS = [0, 1, 2, 3, 5, 8, 13, 20, 45]


@dataclass(frozen=True)
class Scenario:
    """A payload of `run_replay_json` and, when it reads a trace, that trace's rows."""

    payload: dict[str, Any]
    rows: list[dict[str, Any]] | None

    def materialise(self, folder: Path) -> dict[str, Any]:
        """Write the trace into `folder` and return the payload that names it."""
        if self.rows is None:
            return self.payload
        path = folder / "trace.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        traffic = dict(self.payload["traffic"], trace_paths=[str(path)])
        return dict(self.payload, traffic=traffic)


@st.composite
def timing_models(draw: st.DrawFn) -> dict[str, Any]:
    """Fixed or polynomial timing."""
    if draw(st.booleans()):
        return {"type": "polynomial"}
    prefill, decode = draw(st.sampled_from([10.0, 7.5])), draw(st.sampled_from([1.0, 2.25]))
    return {"type": "fixed", "prefill_ms": prefill, "decode_ms": decode}


# Arrivals at multiples of 4 ms fall on the ends of passes.
ROUND_TIMES = {"type": "fixed", "prefill_ms": 4.0, "decode_ms": 4.0}


@st.composite
def ranks(
    draw: st.DrawFn, drafts: bool = True, backends: Sequence[str] = ("vllm", "vllm", "trtllm")
) -> dict[str, Any]:
    """Rank settings around the limits of what fits."""
    rank: dict[str, Any] = {
        "backend": draw(st.sampled_from(backends)),
        "block_size": draw(st.sampled_from([4, 2, 8])),
        "num_gpu_blocks": draw(st.sampled_from([64, 40, 24, 16, 12, 8])),
        "max_num_seqs": draw(st.sampled_from([16, 8, 4, 3, 2, 1])),
        "max_num_batched_tokens": draw(st.sampled_from([128, 64, 32, 16, 8, 3])),
        "enable_prefix_caching": draw(st.sampled_from([True, True, True, False])),
        "enable_chunked_prefill": draw(st.sampled_from([True, True, True, False])),
        "timing_model": draw(timing_models()),
        "timing_mode": draw(st.sampled_from(["additive", "fused"])),
    }
    if rank["backend"] == "vllm":
        rank["preemption_mode"] = draw(st.sampled_from(["lifo", "fifo"]))
    if drafts and draw(st.integers(0, 3)) == 3:
        rank |= draw(speculation())
    if draw(st.integers(0, 6)) == 6:
        rank["max_model_len"] = draw(st.sampled_from([40, 20]))
    if draw(st.integers(0, 6)) == 6:
        rank["speedup_ratio"] = draw(st.sampled_from([2.0, 3.0, 0.3, 0.0]))
        rank["decode_speedup_ratio"] = 1.0 if "aic_nextn" in rank else draw(st.sampled_from([1.0, 1.7]))
    return rank


@st.composite
def speculation(draw: st.DrawFn) -> dict[str, Any]:
    """Drafted tokens, some of them accepted sometimes."""
    settings: dict[str, Any] = {"aic_nextn": draw(st.integers(1, 5))}
    if rates := draw(st.sampled_from([None, "0", "1", "1,1", "1,0,1", "0.5,0.5", "0.9,1,0.4"])):
        settings["aic_nextn_accept_rates"] = rates
    if draw(st.booleans()):
        settings["aic_mtp_seed"] = draw(st.integers(0, 3))
    return settings


@st.composite
def cadence_scenarios(draw: st.DrawFn) -> Scenario:
    """Groups of ranks that schedule prefills in intervals, with chunks, caps and pools that are too small."""
    rank = draw(ranks()) | {
        "backend": "vllm",
        "prefill_schedule_interval": draw(st.sampled_from([2, 3, 4, 7])),
        "max_num_batched_tokens": draw(st.sampled_from([3, 8, 16, 64])),
        "num_gpu_blocks": draw(st.sampled_from([12, 16, 24, 64])),
    }
    traffic, rows = draw(draw_trace(rank, "mooncake", draw(st.booleans())))
    spec = payload_spec(rank, draw(st.integers(1, 2)), draw(st.sampled_from([2, 3])))
    if draw(st.integers(0, 5)) == 5:
        spec["max_sim_time_ms"] = draw(st.sampled_from([10.0, 22.0, 60.0, 150.0]))
    return Scenario({"spec": spec, "traffic": traffic}, rows)


@st.composite
def _prompts(draw: st.DrawFn, block: int, trace_block: int, pool_tokens: int, line: int) -> dict[str, Any]:
    """Length and ids: a shared prefix of one of three families, then ids that only this row has."""
    longest = max(2, min(pool_tokens + 2, 60))
    length = draw(st.integers(1, longest))
    if draw(st.booleans()):
        # Exact multiples of a block bring the last-block rule and duplicate copies into play.
        length = min(longest, max(1, length // block) * block)
    blocks = -(-length // trace_block)
    shared = draw(st.integers(0, blocks))
    family = draw(st.integers(0, 2)) * 100
    ids = [family + k for k in range(shared)] + [1000 * line + k for k in range(blocks - shared)]
    return {"input_length": length, "hash_ids": ids}


@st.composite
def _rows(draw: st.DrawFn, rank: dict[str, Any], trace_block: int, planned: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    now = draw(st.sampled_from([0.0, 1000.0]))
    pool_tokens = rank["num_gpu_blocks"] * rank["block_size"]
    for line in range(1, draw(st.integers(1, 12)) + 1):
        row = draw(_prompts(rank["block_size"], trace_block, pool_tokens, line))
        row["output_length"] = draw(st.sampled_from(OUTPUTS))
        if planned and draw(st.booleans()):
            # Few distinct ids, so that planned outputs are sometimes another row's prompt.
            ids = st.integers(0, 3)
            row["output_token_ids"] = [draw(ids)] * row["output_length"]
        row["timestamp"] = now
        now += draw(st.sampled_from(GAPS_MS))
        session = draw(st.sampled_from([None, None, "a", "b"]))
        if session:
            row["session_id"] = session
            if session in seen and draw(st.booleans()):
                row["delay"] = draw(st.sampled_from(DELAYS_MS))
            seen.add(session)
        rows.append(row)
    return rows


@st.composite
def draw_trace(
    draw: st.DrawFn, rank: dict[str, Any], trace_format: str, planned: bool
) -> tuple[dict, list[dict]]:
    block = rank["block_size"]
    trace_block = draw(st.sampled_from([block, 2 * block, 3 * block, 4 * block, block + 1, block - 1]))
    traffic: dict[str, Any] = {
        "source_type": "trace",
        "trace_paths": [TRACE],
        "trace_block_size": trace_block,
        "trace_format": trace_format,
    }
    cap = draw(st.sampled_from([None, None, 1, 2, 3, 8]))
    if cap:
        traffic["replay_concurrency"] = cap
    rows = draw(_rows(rank, trace_block, planned))
    # With a cap, arrivals are ignored: a speed-up is refused unless there is think time to divide.
    if (not cap or any(row.get("delay") for row in rows)) and draw(st.integers(0, 4)) == 4:
        traffic["arrival_speedup_ratio"] = draw(st.sampled_from([2.0, 0.5, 3.0]))
    return traffic, rows


@st.composite
def draw_synthetic(draw: st.DrawFn, rank: dict[str, Any]) -> dict[str, Any]:
    pool_tokens = rank["num_gpu_blocks"] * rank["block_size"]
    isl = draw(st.integers(1, max(2, min(40, pool_tokens))))
    osl = draw(st.sampled_from([osl for osl in OUTPUTS if osl]))
    loads = ["concurrency", "constant_rate", "poisson"]
    if isl + osl // 2 <= pool_tokens:
        loads.append("kv_capacity_fraction")  # refused where the pool cannot hold one request
    load = draw(st.sampled_from(loads))
    traffic: dict[str, Any] = {
        "source_type": draw(st.sampled_from(["synthetic", "synthetic-session"])),
        "isl": isl,
        "osl": osl,
        "request_count": draw(st.integers(1, 10)),
        "load_type": load,
    }
    if traffic["source_type"] == "synthetic-session":
        traffic["turns_per_session"] = draw(st.integers(1, 4))
        if traffic["turns_per_session"] > 1:
            traffic["inter_turn_delay_ms"] = draw(st.sampled_from(DELAYS_MS))
    if draw(st.booleans()):
        traffic["num_prefix_groups"] = draw(st.integers(0, 3))
        traffic["shared_prefix_ratio"] = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    return traffic | draw(_load(load))


@st.composite
def _load(draw: st.DrawFn, load_type: str) -> dict[str, Any]:
    if load_type == "concurrency":
        cap = draw(st.sampled_from([None, 1, 2, 3, 8]))
        return {"concurrency": cap} if cap else {}
    if load_type == "kv_capacity_fraction":
        return {"kv_load_ratio": draw(st.sampled_from([0.1, 0.5, 1.0, 1.5]))}
    rate = {"request_rate": draw(st.sampled_from([20.0, 75.0, 400.0]))}
    if load_type == "poisson":
        return rate | {"arrival_seed": draw(st.integers(0, 3))}
    return rate if draw(st.booleans()) else {"arrival_interval_ms": draw(st.sampled_from([2.5, 30.0]))}


@st.composite
def scenarios(draw: st.DrawFn, trace_format: str = "mooncake", planned: bool = True) -> Scenario:
    """Whole payloads: one to three workers, attention DP, trace or synthetic traffic, sometimes cut short."""
    rank = draw(ranks())
    rows: list[dict[str, Any]] | None = None
    if draw(st.integers(0, 3)):
        traffic, rows = draw(draw_trace(rank, trace_format, planned))
    else:
        traffic = draw(draw_synthetic(rank))
    spec = payload_spec(rank, draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 1, 2, 3])))
    if draw(st.integers(0, 5)) == 5:
        spec["max_sim_time_ms"] = draw(st.sampled_from([0.0, 10.0, 22.0, 60.0, 150.0]))
    return Scenario({"spec": spec, "traffic": traffic}, rows)


def payload_spec(rank: dict[str, Any], workers: int, dp_size: int = 1) -> dict[str, Any]:
    """The spec of a replay on equal aggregated workers."""
    return {
        "version": 1,
        "topology": {"kind": "aggregated", "workers": {"initial_workers": workers}},
        "engine": {"dp_size": dp_size, "tensor_parallel_size": 1, "rank": rank},
        "record_per_request": True,
        "requests": [],
    }


@st.composite
def draw_returning(
    draw: st.DrawFn, rank: dict[str, Any], families: int, most_blocks: int, cuts: list[int]
) -> Scenario:
    """Prompts of up to `most_blocks` blocks less one of `cuts` tokens; those of a family begin alike."""
    block, rows, now_ms = rank["block_size"], [], 0.0
    for line in range(draw(st.integers(2, 20))):
        blocks = draw(st.integers(1, most_blocks))
        shared = draw(st.sampled_from([blocks, blocks, 1, 2, 3]))
        family = 100 * draw(st.integers(0, families - 1))
        ids = [family + k if k < shared else 1000 * (line + 1) + k for k in range(blocks)]
        length = blocks * block - draw(st.sampled_from(cuts))
        output = draw(st.sampled_from(OUTPUTS))
        rows.append({"timestamp": now_ms, "input_length": length, "output_length": output, "hash_ids": ids})
        now_ms += draw(st.sampled_from(GAPS_MS))
    traffic: dict[str, Any] = {"source_type": "trace", "trace_paths": [TRACE], "trace_block_size": block}
    cap = draw(st.sampled_from([None, 1, 2, 3, 8]))
    if cap:
        traffic["replay_concurrency"] = cap
    return Scenario({"spec": payload_spec(rank, draw(st.integers(1, 2))), "traffic": traffic}, rows)


@st.composite
def turnstile_scenarios(draw: st.DrawFn) -> Scenario:
    """Closed loops over several workers in which many requests are rejected at once.

    A rejection takes no time, so the next request is placed at the same instant, after passes were started.
    """
    rank = draw(ranks()) | {"num_gpu_blocks": 64, "max_model_len": draw(st.sampled_from([20, 40]))}
    rows = []
    for line in range(1, draw(st.integers(4, 14)) + 1):
        length, output = draw(st.sampled_from([4, 9, 16, 19, 41, 55])), draw(st.sampled_from([1, 3, 8, 20]))
        ids = [1000 * line + k for k in range(-(-length // rank["block_size"]))]
        rows.append({"input_length": length, "output_length": output, "hash_ids": ids})
    traffic = {"source_type": "trace", "trace_paths": [TRACE], "trace_block_size": rank["block_size"]}
    traffic["replay_concurrency"] = draw(st.integers(2, 5))
    return Scenario({"spec": payload_spec(rank, draw(st.integers(2, 3))), "traffic": traffic}, rows)


@st.composite
def outgrowing_scenarios(draw: st.DrawFn) -> Scenario:
    """Sessions whose accumulated history fills the pool, so that turns are preempted and rejected halfway."""
    rank = draw(ranks()) | {"num_gpu_blocks": draw(st.sampled_from([8, 12, 16]))}
    traffic: dict[str, Any] = {
        "source_type": "synthetic-session",
        "isl": draw(st.integers(1, 9)),
        "osl": draw(st.sampled_from([5, 8, 13, 20, 45])),
        "request_count": draw(st.integers(1, 5)),
        "turns_per_session": draw(st.integers(2, 5)),
        "load_type": draw(st.sampled_from(["concurrency", "poisson"])),
    }
    if traffic["load_type"] == "concurrency":
        traffic["concurrency"] = draw(st.integers(1, 4))
    else:
        traffic["request_rate"] = 50.0
    workers, dp_size = draw(st.integers(1, 2)), draw(st.sampled_from([1, 1, 2]))
    return Scenario({"spec": payload_spec(rank, workers, dp_size), "traffic": traffic}, None)


@st.composite
def long_prompt_scenarios(draw: st.DrawFn) -> Scenario:
    """Open loops whose prompts take many passes while others decode, arrive, end at once or are rejected."""
    blocks = draw(st.sampled_from([16, 24, 40, 100]))
    rank = draw(ranks()) | {
        "num_gpu_blocks": blocks,
        "max_num_batched_tokens": draw(st.sampled_from([3, 5, 8])),
        "max_model_len": draw(st.sampled_from([None, None, 90])),
        "enable_chunked_prefill": True,
        "timing_model": draw(st.one_of(timing_models(), st.just(ROUND_TIMES))),
        "timing_mode": draw(st.sampled_from(["additive", "fused"])),
    }
    block, rows = rank["block_size"], []
    now_ms = 0.0
    for _ in range(draw(st.integers(2, 8))):
        length, output = (
            draw(st.sampled_from([2, 8, 32, 40, 64, 95])),
            draw(st.sampled_from([0, 1, 4, 30, 60])),
        )
        stem = draw(st.integers(0, 2))  # equal stems share their whole prompt
        ids = [1000 * stem + k for k in range(-(-length // block))]
        row = {"timestamp": now_ms, "input_length": length, "output_length": output, "hash_ids": ids}
        if not draw(st.integers(0, 3)):
            row["output_token_ids"] = list(range(output))
        rows.append(row)
        now_ms += draw(st.sampled_from([*GAPS_MS, 20.0, 40.0]))
    traffic = {"source_type": "trace", "trace_paths": [TRACE], "trace_block_size": block}
    return Scenario({"spec": payload_spec(rank, draw(st.integers(1, 2))), "traffic": traffic}, rows)


@st.composite
def echo_scenarios(draw: st.DrawFn) -> Scenario:
    """Planned outputs that spell what other requests have in their prompts, in a pool that is too small.

    While one request generates, a longer prompt waiting at the head finds more and more of itself cached.
    """
    rank = draw(ranks()) | {
        "enable_prefix_caching": True,
        "num_gpu_blocks": draw(st.sampled_from([6, 8, 12])),
    }
    block = rank["block_size"]
    longest = min(rank["num_gpu_blocks"], 40 // block)
    # The first row makes content id k the token k: ids are numbered by first appearance.
    rows: list[dict[str, Any]] = [_echo_row(0.0, longest, block, 1)]
    for _ in range(draw(st.integers(1, 6))):
        blocks, output = draw(st.integers(1, longest)), draw(st.sampled_from([1, 3, 8, 13, 20]))
        rows.append(_echo_row(rows[-1]["timestamp"] + draw(st.sampled_from(GAPS_MS)), blocks, block, output))
    traffic = {"source_type": "trace", "trace_paths": [TRACE], "trace_block_size": block}
    return Scenario(
        {"spec": payload_spec(rank, 1, draw(st.sampled_from([1, 1, 2]))), "traffic": traffic}, rows
    )


def _echo_row(now_ms: float, blocks: int, block: int, output: int) -> dict[str, Any]:
    """A prompt of content blocks 0, 1, .. that plans to go on with the next ones."""
    return {
        "timestamp": now_ms,
        "input_length": blocks * block,
        "output_length": output,
        "hash_ids": list(range(blocks)),
        "output_token_ids": [blocks + position // block for position in range(output)],
    }


@st.composite
def eviction_scenarios(draw: st.DrawFn) -> Scenario:
    """Prompts of few families that come again, in a pool full of cached blocks: decoders evict all along."""
    rank: dict[str, Any] = {
        "backend": draw(st.sampled_from(["vllm", "vllm", "trtllm"])),
        "block_size": 2,
        "num_gpu_blocks": draw(st.sampled_from([14, 18, 24])),
        "max_num_seqs": draw(st.sampled_from([2, 3, 8])),
        "max_num_batched_tokens": 32,
        "timing_model": {"type": "fixed", "prefill_ms": draw(st.sampled_from([1.0, 2.5])), "decode_ms": 1.0},
    }
    rows: list[dict[str, Any]] = []
    now_ms = 0.0
    for _ in range(draw(st.integers(6, 20))):
        family, count = draw(st.integers(0, 4)) * 100, draw(st.integers(1, 4))
        row = {"timestamp": now_ms, "input_length": 2 * count, "hash_ids": [family + k for k in range(count)]}
        rows.append(row | {"output_length": draw(st.sampled_from([1, 2, 6, 9, 14]))})
        now_ms += draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 4.5, 6.0]))
    traffic = {"source_type": "trace", "trace_paths": [TRACE], "trace_block_size": 2}
    return Scenario(
        {"spec": payload_spec(rank, 1, draw(st.sampled_from([1, 1, 2]))), "traffic": traffic}, rows
    )
