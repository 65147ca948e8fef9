"""The engine command lines of a deployment, to start it for real."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aisimulate.report.shapes import roles, scales, shape_field
from aisimulate.spica.choices import ROUTER_WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Who sends and who receives the KV cache of a prompt.
_KV_ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}


def launch_lines(config: Mapping[str, Any]) -> list[str]:
    """Give one command per role of a deployment, with its replicas."""
    command = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}.get(str(config.get("backend")))
    if command is None:
        return []
    return [f"{_replicas(config, role)}{' '.join(command(config, role))}" for role in roles(config)]


def surrounding_lines(config: Mapping[str, Any]) -> list[str]:
    """Name what the engines' commands do not start: the router in front of them, and the planner."""
    lines = []
    if config.get("router_mode") == "kv_router":
        lines.append(f"# in front of them: kv_router{_settings(config, ROUTER_WEIGHTS)}")
    if scales(config):
        names = ("throughput_adjustment_interval_seconds", "load_adjustment_interval_seconds")
        lines.append(
            f"# beside them: a planner, {config['planner_scaling_policy']}{_settings(config, names)}"
        )
    return lines


def _settings(config: Mapping[str, Any], names: Sequence[str]) -> str:
    return "".join(f", {name} {config[name]}" for name in names if config.get(name) is not None)


def _replicas(config: Mapping[str, Any], role: str) -> str:
    count = shape_field(config, role, "replicas")
    disk = ", each with the disk behind its host memory that no flag of the server gives it"
    tiers = disk if config.get("num_g3_blocks") else ""
    return f"# {role}: {count} replica{'' if count == 1 else 's'}{tiers} of\n"


def _vllm(config: Mapping[str, Any], role: str) -> list[str]:
    arguments = ["vllm serve", str(config["model_name"])]
    arguments += _vllm_shape(config, role)
    arguments += [
        f"--max-num-batched-tokens {config[f'{role}_max_num_batched_tokens']}",
        f"--max-num-seqs {config[f'{role}_max_num_seqs']}",
        f"--block-size {config[f'{role}_block_size']}",
        f"--gpu-memory-utilization {config[f'{role}_gpu_memory_utilization']:g}",
    ]
    caching = config[f"{role}_enable_prefix_caching"]
    arguments.append("--enable-prefix-caching" if caching else "--no-enable-prefix-caching")
    if config.get("context_length") is not None:
        arguments.append(f"--max-model-len {config['context_length']}")
    arguments += _kv_connectors(config, role)
    if config.get("aic_nextn"):
        drafts = {"method": "mtp", "num_speculative_tokens": config["aic_nextn"]}
        arguments.append(f"--speculative-config '{json.dumps(drafts)}'")
    return arguments


def _kv_connectors(config: Mapping[str, Any], role: str) -> list[str]:
    """Say where the KV cache goes: to decode workers, and to host memory where prompts are computed."""
    offloads = bool(config.get("num_g2_blocks")) and role != "decode"
    if role not in _KV_ROLES:
        if not offloads:
            return []
        return [f"--kv-offloading-backend native --kv-offloading-size {_host_gib(config, role):g}"]
    connector: dict[str, Any] = {"kv_connector": "NixlConnector", "kv_role": _KV_ROLES[role]}
    if offloads:
        host = {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {"cpu_bytes_to_use": round(_host_gib(config, role) * 2**30)},
        }
        several = {"connectors": [connector, host]}
        connector = {"kv_connector": "MultiConnector", "kv_role": _KV_ROLES[role]}
        connector["kv_connector_extra_config"] = several
    return [f"--kv-transfer-config '{json.dumps(connector)}'"]


def _host_gib(config: Mapping[str, Any], role: str) -> float:
    """Host memory of an engine in GiB, all its tensor-parallel shards together."""
    block_bytes: int = config[f"{role}_block_size"] * config["kv_bytes_per_token"]
    shards: int = shape_field(config, role, "tp")
    return round(int(config["num_g2_blocks"]) * block_bytes * shards / 2**30, 3)


def _shape(config: Mapping[str, Any], role: str) -> tuple[int, int | None, int, int]:
    tp, pp, dp, expert_ranks = (
        shape_field(config, role, name) for name in ("tp", "pp", "attention_dp", "moe_ep")
    )
    return tp, pp, dp, expert_ranks


def _trtllm(config: Mapping[str, Any], role: str) -> list[str]:
    tp, pp, dp, expert_ranks = _shape(config, role)
    arguments = [
        "trtllm-serve",
        str(config["model_name"]),
        f"--tp_size {tp * dp}",  # with attention DP the ranks are those of the tensor-parallel group
        f"--max_num_tokens {config[f'{role}_max_num_batched_tokens']}",
        f"--max_batch_size {config[f'{role}_max_num_seqs']}",
        f"--kv_cache_free_gpu_memory_fraction {config[f'{role}_gpu_memory_utilization']:g}",
    ]
    if pp and pp > 1:
        arguments.append(f"--pp_size {pp}")
    if expert_ranks > 1:
        arguments.append(f"--ep_size {expert_ranks}")
    if config.get("context_length") is not None:
        arguments.append(f"--max_seq_len {config['context_length']}")
    options = "".join(f"\n#   {line}" for line in _trtllm_file(config, role, dp > 1))
    file = f"trtllm-{role}.yaml" if role in _KV_ROLES else "trtllm.yaml"
    return [*arguments, f"--extra_llm_api_options {file}\n# {file}:{options}"]


def _trtllm_file(config: Mapping[str, Any], role: str, attention_dp: bool) -> list[str]:
    """Give what has no option of its own, as lines of the engine's YAML file."""
    caching = "true" if config[f"{role}_enable_prefix_caching"] else "false"
    block_tokens = config[f"{role}_block_size"]
    lines = [
        f"enable_attention_dp: {'true' if attention_dp else 'false'}",
        f"kv_cache_config: {{enable_block_reuse: {caching}, tokens_per_block: {block_tokens}}}",
        "scheduler_config: {capacity_scheduler_policy: GUARANTEED_NO_EVICT}",
    ]
    if drafted := config.get("aic_nextn"):
        lines.append(f"speculative_config: {{decoding_type: MTP, num_nextn_predict_layers: {drafted}}}")
    if role in _KV_ROLES:
        lines.append("cache_transceiver_config: {backend: DEFAULT}")
    if role == "prefill":
        lines.append("disable_overlap_scheduler: true")  # context servers cannot run it
    return lines


def _vllm_shape(config: Mapping[str, Any], role: str) -> list[str]:
    tp, pp, dp, expert_ranks = _shape(config, role)
    arguments = [f"--tensor-parallel-size {tp}"]
    if pp and pp > 1:
        arguments.append(f"--pipeline-parallel-size {pp}")
    if dp > 1:
        arguments.append(f"--data-parallel-size {dp}")
    if expert_ranks > 1:
        arguments.append("--enable-expert-parallel")
    return arguments


def _sglang(config: Mapping[str, Any], role: str) -> list[str]:
    dp = shape_field(config, role, "attention_dp")
    arguments = ["python -m sglang.launch_server --model-path", str(config["model_name"])]
    arguments += _sglang_shape(config, role)
    arguments += [
        # The server divides what it is given among its ranks.
        f"--max-running-requests {config[f'{role}_max_num_seqs'] * dp}",
        f"--page-size {config[f'{role}_block_size']}",
        f"--mem-fraction-static {config[f'{role}_gpu_memory_utilization']:g}",
    ]
    if not config[f"{role}_enable_prefix_caching"]:
        arguments.append("--disable-radix-cache")
    if config.get("context_length") is not None:
        arguments.append(f"--context-length {config['context_length']}")
    if drafted := config.get("aic_nextn"):
        arguments.append(
            f"--speculative-algorithm EAGLE --speculative-num-steps {drafted} --speculative-eagle-topk 1 "
            f"--speculative-num-draft-tokens {drafted + 1}"
        )
    if role in _KV_ROLES:
        arguments.append(f"--disaggregation-mode {role} --disaggregation-transfer-backend nixl")
    return arguments


def _sglang_shape(config: Mapping[str, Any], role: str) -> list[str]:
    tp, pp, dp, expert_ranks = (
        shape_field(config, role, name) for name in ("tp", "pp", "attention_dp", "moe_ep")
    )
    # Its tensor parallel size counts the attention ranks too.
    arguments = [f"--tp-size {tp * dp}"]
    if pp and pp > 1:
        arguments.append(f"--pp-size {pp}")
    if dp > 1:
        arguments.append(f"--dp-size {dp} --enable-dp-attention")
    if expert_ranks > 1:
        arguments.append(f"--ep-size {expert_ranks}")
    # The sizes that are simulated, so that the server does not choose others.
    return [*arguments, "--chunked-prefill-size 8192 --max-prefill-tokens 16384 --schedule-policy fcfs"]
