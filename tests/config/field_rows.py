"""Short ways to write a row of the field tables."""

from __future__ import annotations

from .field_payloads import AIC, CONFIG, CROWD, SGLANG
from .field_walk import Acts, Inert, Refused

ENGINE, RANK_PATH = "spec.engine", "spec.engine.rank"
TIER = {
    f"{RANK_PATH}.kv_cache_bytes_per_token": 64,
    f"{RANK_PATH}.native_host_offload": {"num_host_blocks": 8},
}
DECODE_TIER = {
    f"{ENGINE}.decode.rank.{name.removeprefix(RANK_PATH)[1:]}": value for name, value in TIER.items()
}
STATE = {f"{RANK_PATH}.kv_cache_bytes_per_token": 64}
OFFLOAD = f"{RANK_PATH}.native_host_offload"
SHARED_HOST = {f"{OFFLOAD}.scope": "cluster_shared", f"{OFFLOAD}.kv_layout_id": "one"}
DISK = f"{RANK_PATH}.g3_offload"
THREE_WORKERS = {"spec.topology.workers.initial_workers": 3}


def rank(base, metric, **fields) -> Acts:
    return Acts(base, {f"{RANK_PATH}.{name}": value for name, value in fields.items()}, metric)


def sglang(metric="mean_ttft_ms", **fields) -> Acts:
    return rank(SGLANG, metric, **fields)


def no_rank(why, text, **fields) -> Refused:
    return Refused(CROWD, {f"{RANK_PATH}.{name}": value for name, value in fields.items()}, text, why)


def idle_rank(why, note, **fields) -> Inert:
    changes = {f"{RANK_PATH}.{name}": value for name, value in fields.items()}
    return Inert(CROWD, changes, f"{RANK_PATH}.{note}", why)


def request(base, metric, **fields) -> Acts:
    return Acts(base, {f"spec.requests.1.{name}": value for name, value in fields.items()}, metric)


def traffic(base, metric, **fields) -> Acts:
    return Acts(base, {f"traffic.{name}": value for name, value in fields.items()}, metric)


def aic(base=AIC, metric="mean_e2e_latency_ms", beside=None, **fields) -> Acts:
    changes = {f"{CONFIG}.{name}": value for name, value in fields.items()}
    return Acts(base, changes | (beside or {}), metric)


def no_aic(why, text, **fields) -> Refused:
    return Refused(AIC, {f"{CONFIG}.{name}": value for name, value in fields.items()}, text, why)


def idle_aic(why, note, base=AIC, **fields) -> Inert:
    changes = {f"{CONFIG}.{name}": value for name, value in fields.items()}
    return Inert(base, changes, f"{CONFIG}.{note}", why)


def pair(base, metric, **fields) -> Acts:
    return Acts(base, {f"spec.topology.{name}": value for name, value in fields.items()}, metric)


def role(stage, base, metric, **fields) -> Acts:
    return Acts(base, {f"{ENGINE}.{stage}.{name}": value for name, value in fields.items()}, metric)


def source(base, metric, **fields) -> Acts:
    return Acts(base, {f"{ENGINE}.prefill.rank.{name}": value for name, value in fields.items()}, metric)
