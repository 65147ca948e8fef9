"""The files that containers read: one ConfigMap of a deployment, mounted as a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.report.export.deployment import Deployment

FOLDER = "/aisimulate"
"""Where containers find them."""


def config_map(deployment: Deployment, files: Mapping[str, str]) -> dict[str, Any]:
    """Give the resource that holds the files, by name."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _name(deployment)},
        "data": dict(files),
    }


def mount_files(deployment: Deployment, pod: dict[str, Any]) -> None:
    """Let the container of a pod's specification read them."""
    name = _name(deployment)
    (container,) = pod["containers"]
    container.setdefault("volumeMounts", []).append({"name": name, "mountPath": FOLDER, "readOnly": True})
    pod.setdefault("volumes", []).append({"name": name, "configMap": {"name": name}})


def _name(deployment: Deployment) -> str:
    return f"{deployment.name}-files"
