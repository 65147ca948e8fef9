"""Rank, role and engine settings: defaults, ranges, backend rules, inheritance."""

import pytest

from aisimulate.config.engine import EngineConfig, RoleConfig, role_capacity_is_explicit
from aisimulate.config.messages import parse_model
from aisimulate.config.rank import RankConfig

from .payloads import refused

_DISK = {"scope": "worker_local", "num_g3_blocks": 1}
OFFLOAD = {"native_host_offload": {"num_host_blocks": 4}, "kv_cache_bytes_per_token": 8}
STATE = {
    "state_cache": {"bytes_per_request": 100},
    "num_gpu_blocks": 14,
    "block_size": 4,
    "kv_cache_bytes_per_token": 2,
}


def _rank(**fields):
    return parse_model(RankConfig, fields, "rank")


def test_the_largest_legal_sizes():
    fields = {"num_gpu_blocks": 2**31, "block_size": 2**16, "speedup_ratio": 1e-6}
    assert _rank(**fields).model_dump().items() >= fields.items()
    assert _rank(speedup_ratio=0, decode_speedup_ratio=1e6).decode_speedup_ratio == 1e6


def test_defaults():
    assert _rank().model_dump() == {
        "backend": "vllm",
        "num_gpu_blocks": 16384,
        "block_size": 64,
        "max_model_len": None,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "prefill_schedule_interval": 1,
        "prefill_decode_interval": 0,
        "enable_prefix_caching": True,
        "enable_chunked_prefill": True,
        "speedup_ratio": 1.0,
        "decode_speedup_ratio": 1.0,
        "aic_nextn": None,
        "aic_nextn_accept_rates": None,
        "aic_mtp_seed": 42,
        "worker_type": "aggregated",
        "preemption_mode": "lifo",
        "emit_kv_events": False,
        "emit_kv_token_ids": False,
        "kv_transfer_bytes_per_token": None,
        "kv_transfer_bandwidth": None,
        "kv_transfer_timing_mode": "full_prompt",
        "kv_cache_bytes_per_token": None,
        "native_host_offload": None,
        "g3_offload": None,
        "state_cache": None,
        "timing_model": {"type": "polynomial"},
        "timing_mode": "additive",
        "prefill_scale": 1.0,
        "decode_scale": 1.0,
        "scheduling_look_ahead": 0,
        "sglang": {
            "schedule_policy": "fifo",
            "max_prefill_tokens": 16384,
            "chunked_prefill_size": 8192,
            "clip_max_new_tokens": 4096,
            "schedule_conservativeness": 1.0,
        },
        "trtllm": {"capacity_scheduler_policy": "guaranteed_no_evict"},
    }


@pytest.mark.parametrize(("backend", "tokens"), [("vllm", 64), ("sglang", 1), ("trtllm", 32)])
def test_the_default_block_size_is_the_backends(backend, tokens):
    assert _rank(backend=backend).block_size == tokens
    assert _rank(backend=backend, block_size=16).block_size == 16


def test_a_dumped_rank_is_read_back():
    for rank in (
        _rank(),
        _rank(**OFFLOAD),
        _rank(**STATE),
        _rank(backend="sglang", prefill_decode_interval=2),
    ):
        assert _rank(**rank.model_dump()) == rank


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"num_gpu_blocks": None}, "num_gpu_blocks: null is not an integer"),
        ({"num_gpu_blocks": 0}, "num_gpu_blocks: 0 is not > 0"),
        ({"num_gpu_blocks": "8"}, "num_gpu_blocks: '8' is not an integer"),
        ({"block_size": 8.7}, "block_size: 8.7 is not an integer"),
        ({"block_size": None}, "block_size: null is not an integer"),
        ({"block_size": 1}, "block_size: 1 is not >= 2 (needed by vllm)"),
        ({"block_size": 1, "backend": "trtllm"}, "block_size: 1 is not >= 2 (needed by trtllm)"),
        ({"block_size": 0, "backend": "sglang"}, "block_size: 0 is not > 0"),
        ({"max_model_len": 0}, "max_model_len: 0 is not > 0"),
        ({"max_num_seqs": True}, "max_num_seqs: true is not an integer"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens: 0 is not > 0"),
        ({"enable_prefix_caching": 1}, "enable_prefix_caching: 1 is not true or false"),
        ({"speedup_ratio": -0.5}, "speedup_ratio: -0.5 is not >= 0"),
        ({"speedup_ratio": float("inf")}, "speedup_ratio: Infinity is not finite"),
        ({"speedup_ratio": True}, "speedup_ratio: true is not a number"),
        ({"preemption_mode": "swap"}, "preemption_mode: 'swap' is not one of 'lifo', 'fifo'"),
        ({"preemption_mode": "fifo", "backend": "trtllm"}, "preemption_mode: 'fifo' is only known to vllm"),
        ({"num_gpu_blocks": 2**31 + 1}, f"num_gpu_blocks: {2**31 + 1} is not <= {2**31}"),
        ({"block_size": 2**31}, f"block_size: {2**31} is not <= 65536"),
        (
            {"speedup_ratio": 5e-324},
            "speedup_ratio: 4.94066e-324 is not 0 (unscaled) or from 1e-06 to 1000000",
        ),
        (
            {"decode_speedup_ratio": 1e7},
            "decode_speedup_ratio: 1e+07 is not 0 (unscaled) or from 1e-06 to 1000000",
        ),
        (
            {"speedup_ratio": 1e-4, "decode_speedup_ratio": 1e-4},
            "decode_speedup_ratio: 0.0001 times speedup_ratio gives 1e-08, which is not 0 (unscaled) or from "
            "1e-06 to 1000000",
        ),
        ({"watermark": 0.01}, "watermark: unknown field"),
        ({"backend": "vlm"}, "backend: 'vlm' is not one of 'vllm', 'sglang', 'trtllm'; did you mean 'vllm'?"),
        ({"backend": []}, "backend: [] is not one of 'vllm', 'sglang', 'trtllm'"),
        (
            {"timing_mode": "fusd"},
            "timing_mode: 'fusd' is not one of 'additive', 'fused', 'half'; did you mean 'fused'?",
        ),
        (
            {"backend": "sglang", "timing_mode": "fused"},
            "timing_mode: 'fused' has nothing to fuse with sglang: it never mixes passes",
        ),
        (
            {"backend": "sglang", "enable_chunked_prefill": False},
            "enable_chunked_prefill: false is not possible with sglang",
        ),
        (
            {"backend": "sglang", "block_size": 4, "sglang": {"chunked_prefill_size": 30}},
            "sglang.chunked_prefill_size: 30 is not a multiple of block_size 4",
        ),
        (
            {"backend": "sglang", "prefill_schedule_interval": 2},
            "prefill_schedule_interval: 2 is not 1 (only vllm schedules prefill in intervals)",
        ),
        (
            {"prefill_decode_interval": 2},
            "prefill_decode_interval: 2 is not 0 (only sglang spaces its prefills)",
        ),
        ({"aic_nextn": 0}, "aic_nextn: 0 is not > 0"),
        (
            {"aic_nextn": 2, "decode_speedup_ratio": 1.5},
            "decode_speedup_ratio: 1.5 is not 1 (needed by aic_nextn 2)",
        ),
        ({"aic_nextn_accept_rates": "0.5"}, "aic_nextn_accept_rates: needs aic_nextn"),
        ({"aic_nextn": 1, "aic_nextn_accept_rates": "0.5,x"}, "aic_nextn_accept_rates: 'x' is not a number"),
        (
            {"aic_nextn": 1, "aic_nextn_accept_rates": "0.5, 2"},
            "aic_nextn_accept_rates: 2 is not between 0 and 1",
        ),
        (
            {"aic_nextn": 1, "aic_nextn_accept_rates": "nan"},
            "aic_nextn_accept_rates: nan is not between 0 and 1",
        ),
        ({"aic_mtp_seed": 7}, "aic_mtp_seed: 7 has no effect without aic_nextn"),
        ({"aic_mtp_seed": 2**64}, f"aic_mtp_seed: {2**64} is not <= {2**64 - 1}"),
        ({"emit_kv_token_ids": True}, "emit_kv_token_ids: needs emit_kv_events"),
        ({"kv_bytes_per_token": 0}, "kv_transfer_bytes_per_token: 0 is not > 0"),
        (
            {"kv_bytes_per_token": 1, "kv_transfer_bytes_per_token": 1},
            "kv_transfer_bytes_per_token: duplicate field: given by its name and by its alias",
        ),
        ({"kv_transfer_bandwidth": -1}, "kv_transfer_bandwidth: -1 is not >= 0"),
        ({"g3_offload": _DISK}, "g3_offload: needs native_host_offload"),
        ({**OFFLOAD, "g3_offload": {"num_g3_blocks": 1}}, "g3_offload.scope: missing (required)"),
        (
            {**OFFLOAD, "g3_offload": {"scope": "worker_local"}},
            "g3_offload.num_g3_blocks: missing (required)",
        ),
        ({"native_host_offload": {}}, "native_host_offload.num_host_blocks: missing (required)"),
        ({**OFFLOAD, "backend": "trtllm"}, "native_host_offload: is only known to vllm, not trtllm"),
        ({**OFFLOAD, "enable_prefix_caching": False}, "native_host_offload: needs enable_prefix_caching"),
        (
            {**OFFLOAD, "kv_cache_bytes_per_token": None},
            "native_host_offload: needs kv_cache_bytes_per_token",
        ),
        ({**OFFLOAD, "aic_nextn": 1}, "native_host_offload: may not be combined with aic_nextn"),
        ({**STATE, "num_gpu_blocks": 13}, "num_gpu_blocks: 13 is not >= 14 (state_cache)"),
        ({**STATE, "block_size": None}, "state_cache: needs an explicit 'block_size'"),
        ({**STATE, "backend": "trtllm"}, "state_cache: is only known to vllm, not trtllm"),
        (
            {**STATE, "native_host_offload": {"num_host_blocks": 1}},
            "state_cache: may not be combined with native_host_offload",
        ),
        (
            {"sglang": {"schedule_policy": "lifo"}},
            "sglang.schedule_policy: 'lifo' is not one of 'fifo', 'lpm'; did you mean 'fifo'?",
        ),
        ({"sglang": {"max_prefill_tokens": 0}}, "sglang.max_prefill_tokens: 0 is not > 0"),
        (
            {"trtllm": {"capacity_scheduler_policy": "max"}},
            "trtllm.capacity_scheduler_policy: 'max' is not 'guaranteed_no_evict'",
        ),
        (
            {"timing_model": {"type": "x"}},
            "timing_model: type 'x' is not one of 'polynomial', 'fixed', 'linear', 'external'",
        ),
        ({"timing_model": {"type": "fixed", "prefill_ms": 1}}, "timing_model.decode_ms: missing (required)"),
        (
            {"timing_model": {"type": "fixed", "prefill_ms": -1, "decode_ms": 1}},
            "timing_model.prefill_ms: -1 is not >= 0",
        ),
        ({"timing_model": {"type": "polynomial", "prefill_ms": 1}}, "timing_model.prefill_ms: unknown field"),
        ({"timing_model": {"type": "external", "provider": " "}}, "timing_model.provider: ' ' is blank"),
    ],
)
def test_bad_ranks_are_refused(fields, text):
    assert refused(_rank, **fields) == f"rank.{text}"


def test_the_transfer_alias_sets_the_field():
    assert _rank(kv_bytes_per_token=3).kv_transfer_bytes_per_token == 3


def test_inheritance_is_all_or_nothing():
    flat = {"dp_size": 2, "tensor_parallel_size": 4, "rank": {"num_gpu_blocks": 9, "max_num_seqs": 3}}
    engine = parse_model(EngineConfig, {**flat, "decode": {"rank": {"num_gpu_blocks": 5}}}, "engine")
    assert engine.role("prefill") == parse_model(RoleConfig, flat, "role") == engine.role()
    assert engine.role("prefill").gpus_per_worker == 8
    decode = engine.role("decode")
    assert (decode.dp_size, decode.tensor_parallel_size, decode.gpus_per_worker) == (1, 1, 1)
    assert (decode.rank.num_gpu_blocks, decode.rank.max_num_seqs) == (5, 256)
    assert [engine.rank_path(stage) for stage in (None, "prefill", "decode")] == [
        "spec.engine.rank",
        "spec.engine.rank",
        "spec.engine.decode.rank",
    ]


def test_capacity_is_detected_independently_per_role():
    engine = {"prefill": {"rank": {"num_gpu_blocks": 17}}, "decode": {"rank": {}}}
    assert role_capacity_is_explicit(engine, "prefill")
    assert not role_capacity_is_explicit(engine, "decode")


@pytest.mark.parametrize(
    ("engine", "role", "explicit"),
    [
        ({}, None, False),
        ({"rank": {"num_gpu_blocks": 3}}, None, True),
        ({"rank": {"num_gpu_blocks": None}}, None, True),
        ({"rank": {"num_gpu_blocks": 3}}, "decode", True),
        ({"rank": {"num_gpu_blocks": 3}, "decode": None}, "decode", True),
        ({"rank": {"num_gpu_blocks": 3}, "decode": {"dp_size": 2}}, "decode", True),
        ({"rank": {"num_gpu_blocks": 3}, "decode": {"rank": {}}}, "decode", False),
        ({"prefill": {"rank": {"num_gpu_blocks": 3}}}, "decode", False),
        ({"prefill": {"rank": {"num_gpu_blocks": 3}}}, None, False),
    ],
)
def test_the_flat_rank_decides_for_a_role_without_rank(engine, role, explicit):
    assert role_capacity_is_explicit(engine, role) is explicit
