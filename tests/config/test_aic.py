"""Settings of the AIC timing provider, and the KV capacity that follows from them."""

import urllib.request
from urllib.error import URLError

import pytest

from aisimulate.config.aic import AicConfig, aic_config
from aisimulate.config.engine import RoleConfig
from aisimulate.config.messages import parse_model
from aisimulate.config.rank import RankConfig
from aisimulate.core.errors import TimingError
from aisimulate.replay.capacity import aic_engine_key, estimate_blocks, materialize_capacity
from aisimulate.replay.execute import execute

from .payloads import AIC, SYNTHETIC, aic, parse, rank, refused

POSITIVE = "AIC timing parallel sizes tp, pp, attention_dp, moe_tp_size, and moe_ep_size must be positive"
PATH = "spec.engine.rank.timing_model"


def _aic(**fields):
    return parse_model(AicConfig, {**AIC, **fields}, "config")


def _never(config, role):
    raise AssertionError("explicit capacity must not invoke the estimator")


def test_defaults_and_aliases():
    aliased = _aic(
        gemm_quant_mode="a",
        moe_quant_mode="b",
        fmha_quant_mode="c",
        kvcache_quant_mode="d",
        comm_quant_mode="e",
    )
    named = _aic(gemm_dtype="a", moe_dtype="b", fmha_dtype="c", kv_cache_dtype="d", comm_dtype="e")
    assert aliased == named
    tp_size = parse_model(AicConfig, {"model": "m", "backend": "vllm", "system": "s", "tp_size": 2}, "config")
    assert tp_size == _aic(tp=2)
    assert (tp_size.pp, tp_size.attention_dp, tp_size.nextn, tp_size.backend_version) == (1, 1, 0, None)


@pytest.mark.parametrize(
    ("backend", "fields", "expected"),
    [
        ("vllm", {}, ("of_total", 0.9)),
        ("sglang", {}, ("of_total", 0.88)),
        ("trtllm", {}, ("of_free", 0.9)),
        ("vllm", {"gpu_memory_utilization": 0.5}, ("of_total", 0.5)),
        ("vllm", {"mem_fraction_static": 0.5}, ("of_total", 0.9)),
        ("sglang", {"mem_fraction_static": 0.5}, ("of_total", 0.5)),
        ("trtllm", {"free_gpu_memory_fraction": 0.0}, ("of_free", 0.0)),
    ],
)
def test_the_memory_fraction_is_the_backends(backend, fields, expected):
    assert _aic(backend=backend, **fields).resolved_memory_fraction() == expected


@pytest.mark.parametrize(
    "name", ["gpu_memory_utilization", "mem_fraction_static", "free_gpu_memory_fraction"]
)
@pytest.mark.parametrize("backend", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("value", [1.1, -0.1, float("nan")])
def test_invalid_memory_fraction_is_rejected_by_name_even_when_unused(name, backend, value):
    config = _aic(backend=backend, **{name: value})
    text = refused(config.resolved_memory_fraction)
    assert text == f"{name} must be finite and between 0 and 1, got {value:g}"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"tp": 0},
            f"{POSITIVE}, got tp=0",
        ),
        (
            {"moe_tp_size": 0, "moe_ep_size": 1},
            f"{POSITIVE}, got moe_tp_size=0",
        ),
        ({"nextn": 6}, "AIC nextn must be in 0..=5, got 6"),
        ({"moe_tp_size": 1}, "AIC moe_tp_size and moe_ep_size must be configured together"),
        ({"moe_ep_size": 1}, "AIC moe_tp_size and moe_ep_size must be configured together"),
        (
            {"tp": 2, "attention_dp": 2, "moe_tp_size": 1, "moe_ep_size": 2},
            "AIC topology requires tp * attention_dp == moe_tp_size * moe_ep_size, got 2 * 2 != 1 * 2",
        ),
    ],
)
def test_the_parallel_shape_must_fit(fields, text):
    assert refused(_aic(**fields).validate_parallel_shape) == text


def test_a_shape_that_fits_is_accepted():
    assert _aic(tp=2, attention_dp=2, moe_tp_size=1, moe_ep_size=4).validate_parallel_shape() is None


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"model": " "}, ": AIC timing config field 'model' cannot be empty"),
        ({"system": ""}, ": AIC timing config field 'system' cannot be empty"),
        ({"backend_version": ""}, ": AIC backend version cannot be empty"),
        (
            {"tp": 0},
            f": {POSITIVE}, got tp=0",
        ),
        (
            {"backend": "vlm"},
            ": unsupported AIC backend: 'vlm' is not one of 'vllm', 'sglang', 'trtllm'; did you mean 'vllm'?",
        ),
        (
            {"gpu_memory_utilization": 1.1},
            ": gpu_memory_utilization must be finite and between 0 and 1, got 1.1",
        ),
        ({"tp_size": 2}, ".tp: duplicate field: given by its name and by its alias"),
        ({"gemm_quant_mod": "x"}, ".gemm_quant_mod: unknown field; did you mean 'gemm_quant_mode'?"),
        ({"tp": 1.0}, ".tp: 1.0 is not an integer"),
    ],
)
def test_bad_settings_are_refused_with_their_path(fields, text):
    assert refused(parse, aic(**fields)) == f"{PATH}.config{text}"


@pytest.mark.parametrize("config", [None, 3, []])
def test_settings_must_be_an_object(config):
    timing = {"type": "external", "provider": "aic", "config": config}
    assert refused(parse, rank(timing_model=timing)).endswith(" is not an object")


def test_other_providers_are_not_installed():
    timing = {"type": "external", "provider": "my\ntimer", "config": {}}
    assert refused(parse, rank(timing_model=timing)) == (
        f'{PATH}.provider: native timing provider "my\\ntimer" is not installed; only "aic" is available'
    )


def test_built_in_timing_has_no_aic_settings():
    assert aic_config(RankConfig()) is None
    assert aic_config(parse(aic()).spec.engine.rank) == _aic()


def test_capacity_is_estimated_only_when_not_explicit():
    role = RoleConfig()
    seen = []
    estimated = materialize_capacity(
        _aic(), role, False, lambda _, role: seen.append(role.rank.block_size) or 321
    )
    assert (estimated.num_gpu_blocks, seen) == (321, [RankConfig().block_size])
    explicit = RoleConfig(rank=RankConfig(num_gpu_blocks=17))
    assert materialize_capacity(_aic(), explicit, True, _never).num_gpu_blocks == 17
    assert role.rank.num_gpu_blocks == 16384


def test_zero_blocks_are_an_error():
    assert (
        refused(materialize_capacity, _aic(), RoleConfig(), False, lambda *_: 0)
        == "AIC estimated zero KV-cache blocks"
    )


@pytest.mark.parametrize(
    ("config", "role", "text"),
    [
        ({}, {"rank": {"backend": "sglang"}}, "AIC backend 'vllm' does not match engine backend 'sglang'"),
        ({"tp": 2}, {"tensor_parallel_size": 4}, "AIC tp=2 does not match engine tensor_parallel_size=4"),
        ({"attention_dp": 2}, {}, "AIC attention_dp=2 does not match engine dp_size=1"),
        ({"kv_block_size": 32}, {}, "AIC kv_block_size=32 does not match engine block_size=64"),
        ({"nextn": 1}, {}, "AIC nextn=1 does not match engine aic_nextn=0"),
        ({}, {"rank": {"aic_nextn": 2}}, "AIC nextn=0 does not match engine aic_nextn=2"),
        ({"moe_ep_size": 2}, {}, "AIC moe_tp_size and moe_ep_size must be configured together"),
    ],
)
@pytest.mark.parametrize("explicit", [True, False])
def test_timing_and_engine_must_agree(config, role, text, explicit):
    engine = parse_model(RoleConfig, role, "role")
    assert refused(materialize_capacity, _aic(**config), engine, explicit, _never) == text


def test_agreeing_values_pass():
    role = parse_model(
        RoleConfig, {"tensor_parallel_size": 2, "dp_size": 3, "rank": {"aic_nextn": 1}}, "role"
    )
    config = _aic(tp=2, attention_dp=3, kv_block_size=64, nextn=1)
    assert materialize_capacity(config, role, True, _never) == role.rank


LLAMA = {"model": "meta-llama/Meta-Llama-3.1-8B", "system": "h100_sxm"}


def test_the_memory_model_gives_whole_blocks():
    role = RoleConfig(rank=RankConfig(block_size=16))
    # 432,992 tokens fit one rank of this model and GPU (spec 04 section 6).
    assert estimate_blocks(_aic(**LLAMA), role) == 432_992 // 16
    less = estimate_blocks(_aic(**LLAMA, gpu_memory_utilization=0.5), role)
    assert 0 < less < 432_992 // 16 // 2 + 1
    assert materialize_capacity(_aic(**LLAMA), role, False).num_gpu_blocks == 432_992 // 16


def test_every_setting_reaches_the_engine_key():
    key = aic_engine_key(
        _aic(**LLAMA, tp=2, pp=2, attention_dp=1, gemm_dtype="bfloat16", kv_cache_dtype="fp8")
    )
    assert (key.tp, key.pp, key.attention_dp, key.gemm_dtype, key.kv_cache_dtype) == (
        2,
        2,
        1,
        "bfloat16",
        "fp8",
    )
    assert key.backend_version == "0.24.0"


def test_an_unbundled_model_names_the_field_and_the_ways_out():
    payload = {"spec": aic(**LLAMA | {"model": "nobody/nothing"}), "traffic": SYNTHETIC}
    assert refused(execute, payload) == (
        f"{PATH}.config.model: 'nobody/nothing' is not bundled, and there is no such folder; give a folder "
        "that holds the model's config.json, or set allow_model_download: true to fetch that file from "
        "Hugging Face"
    )


def test_a_download_is_made_only_when_allowed(monkeypatch):
    calls = []

    def urlopen(request, **_):
        calls.append(request)
        raise URLError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    settings = LLAMA | {"model": "nobody/nothing"}
    refused(aic_engine_key, _aic(**settings))
    assert calls == []
    payload = {"spec": aic(**settings, allow_model_download=True), "traffic": SYNTHETIC}
    text = refused(execute, payload)
    assert text.startswith(f"{PATH}.config.model: 'nobody/nothing' could not be downloaded")
    assert len(calls) == 1


def test_the_permission_reaches_the_engine_key():
    assert aic_engine_key(_aic(**LLAMA, allow_model_download=True)).allow_download
    assert not aic_engine_key(_aic(**LLAMA)).allow_download


def test_a_model_that_does_not_fit_has_no_capacity():
    with pytest.raises(TimingError):
        estimate_blocks(_aic(model="meta-llama/Meta-Llama-3.1-70B", system="h100_sxm"), RoleConfig())
