"""The engine command lines of a deployment, to start it for real."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from aisimulate.report.engines.command import EngineCommand, Role
from aisimulate.report.engines.sglang import sglang_command
from aisimulate.report.engines.trtllm import trtllm_command
from aisimulate.report.engines.vllm import vllm_command
from aisimulate.report.shapes import roles
from aisimulate.spica.choices import ROUTER_WEIGHTS
from aisimulate.spica.deploy import scales

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COMMANDS = {"vllm": vllm_command, "sglang": sglang_command, "trtllm": trtllm_command}


def engine_command(role: Role) -> EngineCommand | None:
    """Give the command of a role, None for an engine that has none."""
    command = _COMMANDS.get(str(role.config.get("backend")))
    return None if command is None else command(role)


def launch_lines(config: Mapping[str, Any]) -> list[str]:
    """Give one command per role of a deployment, with its replicas."""
    found = [(role, engine_command(role)) for role in (Role(config, name) for name in roles(config))]
    return [_role_text(role, command) for role, command in found if command is not None]


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


def _role_text(role: Role, command: EngineCommand) -> str:
    disk = ", each with the disk behind its host memory that no flag of the server gives it"
    tiers = disk if role.config.get("num_g3_blocks") else ""
    head = f"# {role.name}: {role.replicas} replica{'' if role.replicas == 1 else 's'}{tiers} of"
    files = [line for name, text in command.files.items() for line in (f"{name}:", *_indented(text))]
    return "\n".join([head, shlex.join(command.argv), *(f"# {line}" for line in files)])


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
