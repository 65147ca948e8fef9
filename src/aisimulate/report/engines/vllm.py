"""`vllm serve`: the arguments of one role."""

from __future__ import annotations

import json
from typing import Any

from aisimulate.report.engines.command import KV_ROLES, EngineCommand, Role, option


def vllm_command(role: Role) -> EngineCommand:
    """Give the command of a role."""
    arguments = [
        *_shape(role),
        *option("--max-num-batched-tokens", role.setting("max_num_batched_tokens")),
        *option("--max-num-seqs", role.setting("max_num_seqs")),
        *option("--block-size", role.setting("block_size")),
        *option("--gpu-memory-utilization", float(role.setting("gpu_memory_utilization"))),
        "--enable-prefix-caching" if role.setting("enable_prefix_caching") else "--no-enable-prefix-caching",
    ]
    if role.config.get("context_length") is not None:
        arguments += option("--max-model-len", role.config["context_length"])
    arguments += _kv_connectors(role)
    if role.drafts:
        drafts = {"method": "mtp", "num_speculative_tokens": role.drafts}
        arguments += option("--speculative-config", json.dumps(drafts))
    model = (str(role.config["model_name"]),)
    return EngineCommand(("vllm", "serve"), model, tuple(arguments), remarks=_remarks(role))


def _shape(role: Role) -> list[str]:
    arguments = [*option("--tensor-parallel-size", role.size("tp"))]
    if role.size("pp") > 1:
        arguments += option("--pipeline-parallel-size", role.size("pp"))
    if role.size("attention_dp") > 1:
        arguments += option("--data-parallel-size", role.size("attention_dp"))
    if role.size("moe_ep") > 1:
        arguments.append("--enable-expert-parallel")
    return arguments


def _kv_connectors(role: Role) -> list[str]:
    """Say where the KV cache goes: to decode workers, and to host memory where prompts are computed."""
    host_gib = role.host_gib
    if not role.is_pair:
        if not host_gib:
            return []
        return [*option("--kv-offloading-backend", "native"), *option("--kv-offloading-size", host_gib)]
    connector: dict[str, Any] = {"kv_connector": "NixlConnector", "kv_role": KV_ROLES[role.name]}
    if host_gib:
        host = {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {"cpu_bytes_to_use": round(host_gib * 2**30)},
        }
        several = {"connectors": [connector, host]}
        connector = {"kv_connector": "MultiConnector", "kv_role": KV_ROLES[role.name]}
        connector["kv_connector_extra_config"] = several
    return [*option("--kv-transfer-config", json.dumps(connector))]


def _remarks(role: Role) -> tuple[str, ...]:
    if role.size("moe_ep") > 1 and role.size("moe_tp") > 1:
        return (
            f"experts were simulated as {role.size('moe_tp')} x tensor and {role.size('moe_ep')} x expert "
            "parallel; vLLM splits them over all ranks of a worker",
        )
    return ()
