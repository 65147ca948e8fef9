"""Hypothesis strategies of replays whose ranks lose prompts to host memory and get them back."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .strategies import (
    GAPS_MS,
    ROUND_TIMES,
    TRACE,
    Scenario,
    draw_returning,
    draw_synthetic,
    draw_trace,
    payload_spec,
    ranks,
    timing_models,
)

_BANDWIDTHS_GBPS = [1.0, 0.1, 10.0, 0.25, 0.3, 0.0]


@st.composite
def host_memory(draw: st.DrawFn) -> dict[str, Any]:
    """Rank settings of a host tier: from a handful of blocks to more than any replay fills."""
    return {
        "enable_prefix_caching": True,
        "kv_cache_bytes_per_token": 250_000,
        "native_host_offload": {
            "num_host_blocks": draw(st.sampled_from([1, 3, 6, 10, 20, 500])),
            "d2h_bandwidth_gbps": draw(st.sampled_from(_BANDWIDTHS_GBPS)),
            "h2d_bandwidth_gbps": draw(st.sampled_from(_BANDWIDTHS_GBPS)),
            "latency_to_first_byte_ms": draw(st.sampled_from([0.0, 0.0, 0.5, 3.0])),
        },
    }


@st.composite
def disks(draw: st.DrawFn) -> dict[str, Any]:
    """Rank settings of a disk behind it, of each worker or of all."""
    ways = ("read", "write", "shared_read", "shared_write")
    disk = {f"{way}_bandwidth_gbps": draw(st.sampled_from(_BANDWIDTHS_GBPS)) for way in ways}
    return {
        "g3_offload": disk
        | {
            "scope": draw(st.sampled_from(["worker_local", "cluster_shared"])),
            "num_g3_blocks": draw(st.sampled_from([2, 6, 20, 500])),
            "latency_to_first_byte_ms": draw(st.sampled_from([0.0, 0.1, 2.0])),
        }
    }


@st.composite
def offload_scenarios(draw: st.DrawFn, disk: bool = False) -> Scenario:
    """Whole payloads, as for any other rank; with a disk or without, then of several ranks to a worker."""
    rank = draw(ranks(drafts=False, backends=["vllm"])) | draw(host_memory())
    rank |= draw(disks()) if disk else {}
    rows: list[dict[str, Any]] | None = None
    if draw(st.integers(0, 3)):
        traffic, rows = draw(draw_trace(rank, "mooncake", planned=True))
    else:
        traffic = draw(draw_synthetic(rank))
    spec = payload_spec(rank, draw(st.integers(1, 3)))
    if not disk:
        spec["engine"]["dp_size"] = draw(st.sampled_from([1, 1, 2, 3]))
    if draw(st.integers(0, 5)) == 5:
        spec["max_sim_time_ms"] = draw(st.sampled_from([0.0, 10.0, 22.0, 60.0, 150.0]))
    return Scenario({"spec": spec, "traffic": traffic}, rows)


@st.composite
def returning_scenarios(draw: st.DrawFn, disk: bool = False) -> Scenario:
    """Few prompts that come again and again, on GPUs that hold about one of them."""
    rank = (
        draw(ranks(drafts=False, backends=["vllm"]))
        | draw(host_memory())
        | {"num_gpu_blocks": draw(st.sampled_from([6, 8, 12, 16]))}
        | (draw(disks()) if disk else {})
    )
    if draw(st.booleans()):
        rank["timing_model"] = ROUND_TIMES
    block = rank["block_size"]
    return draw(draw_returning(rank, 3, rank["num_gpu_blocks"], [0, 1, block - 1]))


@st.composite
def crowded_scenarios(draw: st.DrawFn) -> Scenario:
    """A few requests that outgrow GPU, host and disk, all of a handful of blocks, and give way to each other.

    While one waits for room, others evict what it finds on the GPU, so that it has to come from the disk.
    """
    rank = draw(ranks(drafts=False, backends=["vllm"])) | draw(host_memory()) | draw(disks())
    rank |= {
        "block_size": draw(st.sampled_from([4, 2])),
        "num_gpu_blocks": draw(st.sampled_from([6, 4, 5, 8])),
        "max_num_seqs": draw(st.sampled_from([2, 3, 16])),
        "timing_model": draw(st.one_of(timing_models(), st.just(ROUND_TIMES))),
    }
    rank["native_host_offload"]["num_host_blocks"] = draw(st.sampled_from([1, 2, 3]))
    rank["g3_offload"]["num_g3_blocks"] = draw(st.sampled_from([2, 1, 6, 500]))
    block, rows, now_ms = rank["block_size"], [], 0.0
    for line in range(draw(st.integers(2, 4))):
        length = draw(st.integers(1, block * rank["num_gpu_blocks"]))
        stem = draw(st.sampled_from([line, line, 0]))
        ids = [1000 * stem + k for k in range(-(-length // block))]
        output = draw(st.sampled_from([8, 20, 13, 5, 2]))
        rows.append({"timestamp": now_ms, "input_length": length, "output_length": output, "hash_ids": ids})
        now_ms += draw(st.sampled_from(GAPS_MS))
    traffic = {"source_type": "trace", "trace_paths": [TRACE], "trace_block_size": block}
    return Scenario({"spec": payload_spec(rank, draw(st.integers(1, 2))), "traffic": traffic}, rows)
