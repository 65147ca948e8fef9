"""How exported files look: a head that says where they come from, and YAML and shell below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from aisimulate.core.shown import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aisimulate.report.export.deployment import Deployment

_LOUD = "NOT EXPRESSED HERE"


class _Dumper(yaml.SafeDumper):
    """Writes lists inside mappings indented, and texts of several lines as blocks."""

    def ignore_aliases(self, data: object) -> bool:
        """Write everything out, so that no tool has to follow references."""
        del data
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists too."""
        del indentless
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def head(deployment: Deployment, remarks: Iterable[str]) -> str:
    """Say what the file starts, and loudly what it leaves out, as comments."""
    workers = ", ".join(f"{pool.role.name} x {pool.role.replicas}" for pool in deployment.pools)
    lines = [
        f"{deployment.model}: {workers}, simulated with {deployment.backend} {deployment.version}",
        *(f"{_LOUD}: {remark}" for remark in remarks),
    ]
    return "".join(f"# {visible(line)}\n" for line in lines)


def yaml_text(documents: Sequence[dict[str, Any]], comments: str) -> str:
    """Write YAML documents below comments."""
    texts = [yaml.dump(item, Dumper=_Dumper, sort_keys=False, width=1000) for item in documents]
    return comments + "---\n".join(texts)
