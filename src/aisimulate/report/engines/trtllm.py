"""`trtllm-serve`: the arguments of one role, and the YAML file for what has no option of its own."""

from __future__ import annotations

from aisimulate.report.engines.command import EngineCommand, Role, option


def trtllm_command(role: Role) -> EngineCommand:
    """Give the command of a role."""
    file = f"trtllm-{role.name}.yaml" if role.is_pair else "trtllm.yaml"
    arguments = [
        # With attention DP the ranks are those of the tensor-parallel group.
        *option("--tp_size", role.size("tp") * role.size("attention_dp")),
        *option("--max_num_tokens", role.setting("max_num_batched_tokens")),
        *option("--max_batch_size", role.setting("max_num_seqs")),
        *option("--kv_cache_free_gpu_memory_fraction", float(role.setting("gpu_memory_utilization"))),
    ]
    if role.size("pp") > 1:
        arguments += option("--pp_size", role.size("pp"))
    if role.size("moe_ep") > 1:
        arguments += option("--ep_size", role.size("moe_ep"))
    if role.config.get("context_length") is not None:
        arguments += option("--max_seq_len", role.config["context_length"])
    arguments += option("--extra_llm_api_options", file)
    model = (str(role.config["model_name"]),)
    text = "".join(f"{line}\n" for line in engine_file_lines(role))
    return EngineCommand(("trtllm-serve",), model, tuple(arguments), files={file: text})


def engine_file_lines(role: Role) -> list[str]:
    """Write the engine's YAML file. Its `kv_cache_config` replaces the options of the command as a whole."""
    caching = "true" if role.setting("enable_prefix_caching") else "false"
    kv_cache = (
        f"enable_block_reuse: {caching}, tokens_per_block: {role.setting('block_size')}, "
        f"free_gpu_memory_fraction: {float(role.setting('gpu_memory_utilization')):g}"
    )
    lines = [
        f"enable_attention_dp: {'true' if role.size('attention_dp') > 1 else 'false'}",
        "enable_chunked_prefill: true",
        f"kv_cache_config: {{{kv_cache}}}",
        "scheduler_config: {capacity_scheduler_policy: GUARANTEED_NO_EVICT}",
    ]
    if role.drafts:
        lines.append(f"speculative_config: {{decoding_type: MTP, num_nextn_predict_layers: {role.drafts}}}")
    if role.is_pair:
        lines.append("cache_transceiver_config: {backend: DEFAULT}")
    if role.name == "prefill":
        lines.append("disable_overlap_scheduler: true")  # context servers cannot run it
    return lines
