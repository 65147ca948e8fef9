"""What every export is made from: the engines of a candidate, and what it needs around them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.report.engines.command import EngineCommand, Role
from aisimulate.report.launch import engine_command
from aisimulate.report.shapes import roles
from aisimulate.spica.deploy import scales

if TYPE_CHECKING:
    from collections.abc import Mapping

GPUS_PER_NODE = 8
"""Workers of more GPUs span nodes."""

MODELS = "/models"
"""Where containers find a model that lies in a folder."""

_NAME_LENGTH = 40


@dataclass(frozen=True, slots=True)
class Pool:
    """The workers of one role and the command that starts each of them."""

    role: Role
    command: EngineCommand

    @property
    def nodes_per_worker(self) -> int:
        """Nodes that one worker spans."""
        return -(-self.role.gpus_per_worker // GPUS_PER_NODE)


@dataclass(frozen=True, slots=True)
class Deployment:
    """A candidate to export. `planner` are the settings of its planner, as the reference names them.

    `model_folder` is where its model lies on this machine, if it lies in a folder.
    """

    config: Mapping[str, Any]
    pools: tuple[Pool, ...]
    planner: dict[str, Any] | None
    model_folder: str | None = None

    @property
    def backend(self) -> str:
        """The engine."""
        return str(self.config["backend"])

    @property
    def version(self) -> str:
        """The version of the engine whose measurements were used."""
        return str(self.config.get("backend_version") or "unknown")

    @property
    def model(self) -> str:
        """The model as the engine is given it."""
        return str(self.config["model_name"])

    @property
    def name(self) -> str:
        """A name that Kubernetes takes, from that of the model."""
        text = re.sub(r"[^a-z0-9]+", "-", self.model.rpartition("/")[2].lower())
        return f"aisim-{text}"[:_NAME_LENGTH].strip("-")

    @property
    def files(self) -> dict[str, str]:
        """The files that the commands of its engines name."""
        return {name: text for pool in self.pools for name, text in pool.command.files.items()}

    @property
    def is_pair(self) -> bool:
        """Whether it has a prefill and a decode pool."""
        return len(self.pools) > 1

    @property
    def routes_by_cache(self) -> bool:
        """Whether a router that knows the caches stands in front of the workers."""
        return self.config.get("router_mode") == "kv_router"


@dataclass(slots=True)
class Export:
    """Files by name, and what they cannot say."""

    files: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def deployment_of(
    config: Mapping[str, Any],
    planner: dict[str, Any] | None,
    model_folder: str | None = None,
    *,
    in_containers: bool = False,
) -> Deployment:
    """Gather what a candidate's configuration says; a model in a folder is named by where engines find it.

    Raises:
        InputError: no command is known for its engine.
    """
    if model_folder is not None:
        name = f"{MODELS}/{PurePath(model_folder).name}" if in_containers else model_folder
        config = {**config, "model_name": name}
    pools = []
    for role in (Role(config, name) for name in roles(config)):
        command = engine_command(role)
        if command is None:
            raise InputError(f"backend {config.get('backend')!r}: no command is known that starts it")
        pools.append(Pool(role, command))
    return Deployment(config, tuple(pools), planner if scales(config) else None, model_folder)


def mount_remarks(deployment: Deployment) -> list[str]:
    """Say that a model in a folder has to be brought to the containers, which nothing here does."""
    if deployment.model_folder is None:
        return []
    return [
        f"the model: its folder {deployment.model_folder} must be mounted into every engine's container as "
        f"{deployment.model}, a placeholder; nothing here mounts it"
    ]


def refuse_nodes(deployment: Deployment, target: str) -> None:
    """Raise InputError for workers that span nodes, where a target starts each of them on one."""
    for pool in deployment.pools:
        if pool.nodes_per_worker > 1:
            raise InputError(
                f"--to {target}: a {pool.role.name} worker has {pool.role.gpus_per_worker} GPUs, more than "
                f"the {GPUS_PER_NODE} of a node; only --to dynamo spreads a worker over nodes"
            )
