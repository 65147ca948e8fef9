"""One engine's command, and what every engine's arguments are made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aisimulate.report.shapes import shape_field

if TYPE_CHECKING:
    from collections.abc import Mapping

# Who sends and who receives the KV cache of a prompt.
KV_ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """A program with its arguments, the files they name, and what no argument can say (`remarks`)."""

    program: tuple[str, ...]
    model: tuple[str, ...]
    arguments: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command line."""
        return (*self.program, *self.model, *self.arguments)


@dataclass(frozen=True, slots=True)
class Role:
    """One role of a deployment: its shape and its engine settings, by their names without the role."""

    config: Mapping[str, Any]
    name: str

    @property
    def is_pair(self) -> bool:
        """Whether its workers exchange KV caches with those of another role."""
        return self.name in KV_ROLES

    @property
    def replicas(self) -> int:
        """Workers of this role."""
        return int(shape_field(self.config, self.name, "replicas"))

    @property
    def gpus_per_worker(self) -> int:
        """GPUs of one worker."""
        return self.size("tp") * self.size("pp") * self.size("attention_dp")

    def size(self, name: str) -> int:
        """Read a size of the shape; 1 where it is not given."""
        return int(shape_field(self.config, self.name, name) or 1)

    def setting(self, name: str) -> Any:  # noqa: ANN401 - a sample value
        """Read an engine setting of this role."""
        return self.config[f"{self.name}_{name}"]

    @property
    def drafts(self) -> int:
        """Drafted tokens per step."""
        return int(self.config.get("aic_nextn") or 0)

    @property
    def host_gib(self) -> float:
        """Host memory of a worker in GiB, all its tensor-parallel shards together; 0 where there is none."""
        blocks = int(self.config.get("num_g2_blocks") or 0)
        if not blocks or self.name == "decode":  # finished prefixes are received, not computed
            return 0.0
        block_bytes: int = self.setting("block_size") * self.config["kv_bytes_per_token"]
        return round(blocks * block_bytes * self.size("tp") / 2**30, 3)


def option(name: str, value: object) -> tuple[str, str]:
    """Give an option and its value as two arguments."""
    return name, f"{value:g}" if isinstance(value, float) else str(value)
