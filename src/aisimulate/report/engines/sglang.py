"""`sglang.launch_server`: the arguments of one role."""

from __future__ import annotations

from aisimulate.report.engines.command import EngineCommand, Role, option

# The sizes that are simulated, so that the server does not choose others.
CHUNKED_PREFILL_TOKENS = 8192
_PREFILL_TOKENS = 16384


def sglang_command(role: Role) -> EngineCommand:
    """Give the command of a role."""
    arguments = [
        *_shape(role),
        *option("--chunked-prefill-size", CHUNKED_PREFILL_TOKENS),
        *option("--max-prefill-tokens", _PREFILL_TOKENS),
        *option("--schedule-policy", "fcfs"),
        # The server divides what it is given among its ranks.
        *option("--max-running-requests", role.setting("max_num_seqs") * role.size("attention_dp")),
        *option("--page-size", role.setting("block_size")),
        *option("--mem-fraction-static", float(role.setting("gpu_memory_utilization"))),
    ]
    if not role.setting("enable_prefix_caching"):
        arguments.append("--disable-radix-cache")
    if role.config.get("context_length") is not None:
        arguments += option("--context-length", role.config["context_length"])
    if role.drafts:
        arguments += [
            *option("--speculative-algorithm", "EAGLE"),
            *option("--speculative-num-steps", role.drafts),
            *option("--speculative-eagle-topk", 1),
            *option("--speculative-num-draft-tokens", role.drafts + 1),
        ]
    if role.is_pair:
        arguments += option("--disaggregation-mode", role.name)
        arguments += option("--disaggregation-transfer-backend", "nixl")
    model = ("--model-path", str(role.config["model_name"]))
    program = ("python", "-m", "sglang.launch_server")
    return EngineCommand(program, model, tuple(arguments), remarks=_remarks(role))


def _shape(role: Role) -> list[str]:
    # Its tensor parallel size counts the attention ranks too.
    arguments = [*option("--tp-size", role.size("tp") * role.size("attention_dp"))]
    if role.size("pp") > 1:
        arguments += option("--pp-size", role.size("pp"))
    if role.size("attention_dp") > 1:
        arguments += [*option("--dp-size", role.size("attention_dp")), "--enable-dp-attention"]
    if role.size("moe_ep") > 1:
        arguments += option("--ep-size", role.size("moe_ep"))
    return arguments


def _remarks(role: Role) -> tuple[str, ...]:
    tokens = role.setting("max_num_batched_tokens")
    if tokens == CHUNKED_PREFILL_TOKENS:
        return ()
    return (
        f"max_num_batched_tokens {tokens} has no counterpart in SGLang; chunks of "
        f"{CHUNKED_PREFILL_TOKENS} tokens were simulated, and are set",
    )
