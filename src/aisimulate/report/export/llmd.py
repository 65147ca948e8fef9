"""Values of the llm-d-modelservice chart, the configuration of llm-d's endpoint picker, and what to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.report.export.coverage import ROUTER, settings_text, unexpressed
from aisimulate.report.export.deployment import Export, refuse_nodes
from aisimulate.report.export.fronts import own_address
from aisimulate.report.export.texts import head, yaml_text
from aisimulate.spica.choices import ROUTER_WEIGHTS

if TYPE_CHECKING:
    from aisimulate.report.export.deployment import Deployment, Pool

CHART_VERSION = "v0.4.12"
_IMAGE = "ghcr.io/llm-d/llm-d-cuda:latest"
# Behind the routing sidecar of a decode pod, and of a pod that is alone.
_PROXIED_PORT, _PORT, _NIXL_PORT = 8200, 8000, 5600
# The volume claim of a model that is on no hub, for the user to name.
_CLAIM = "model-volume"
_PREFIX_WEIGHT, _QUEUE_WEIGHT = 2, 1


def export_llmd(deployment: Deployment, target: str) -> Export:
    """Write the chart's values and the endpoint picker's configuration.

    Raises InputError for another engine than vLLM, which is what the chart serves, and for workers that
    span nodes.
    """
    if deployment.backend != "vllm":
        raise InputError(
            f"--to {target}: the chart serves vllm, the candidate was simulated with {deployment.backend}"
        )
    refuse_nodes(deployment, target)
    remarks = [
        *unexpressed(deployment, (ROUTER,)),
        *_folder_remarks(deployment),
        *_router_remarks(deployment),
        f"the engine's version: the image is {_IMAGE}; vllm {deployment.version} was simulated",
    ]
    comments = head(deployment, remarks)
    return Export(
        {
            "values.yaml": yaml_text(
                [_values(deployment)], f"# llm-d-modelservice {CHART_VERSION}\n{comments}"
            ),
            "endpoint-picker.yaml": yaml_text([_picker(deployment)], comments),
        },
        remarks,
    )


def _router_remarks(deployment: Deployment) -> list[str]:
    if not deployment.routes_by_cache:
        return ["round robin: the endpoint picker sends to the shortest queue"]
    given = settings_text(deployment.config, ROUTER_WEIGHTS)
    return [
        f"kv_router ({given}): the endpoint picker scores cached prefixes and queues by weights of its own"
    ]


def _values(deployment: Deployment) -> dict[str, Any]:
    pools = {"decode" if pool.role.name == "agg" else pool.role.name: pool for pool in deployment.pools}
    values: dict[str, Any] = {
        "multinode": False,
        "modelArtifacts": {
            **_model_place(deployment),
            "size": "500Gi",
            "authSecretName": "hf-token-secret",
            "labels": {"llm-d.ai/inference-serving": "true", "llm-d.ai/model": deployment.name},
        },
        "routing": {
            "servicePort": _PORT,
            "proxy": {"enabled": deployment.is_pair, "targetPort": _PROXIED_PORT},
        },
    }
    for name in ("decode", "prefill"):
        values[name] = _pool_values(deployment, pools[name]) if name in pools else {"create": False}
    return values


def _model_place(deployment: Deployment) -> dict[str, str]:
    if deployment.model_folder is None:
        return {"name": deployment.model, "uri": f"hf://{deployment.model}"}
    name = deployment.model.rpartition("/")[2]
    return {"name": name, "uri": f"pvc://{_CLAIM}/{name}"}


def _folder_remarks(deployment: Deployment) -> list[str]:
    if deployment.model_folder is None:
        return []
    name = deployment.model.rpartition("/")[2]
    return [
        f"the model: its folder {deployment.model_folder} must be copied as {name} onto a volume that the "
        f"claim {_CLAIM}, a placeholder, names; the chart mounts that"
    ]


def _pool_values(deployment: Deployment, pool: Pool) -> dict[str, Any]:
    role = pool.role
    port = _PROXIED_PORT if role.name == "decode" else _PORT
    container: dict[str, Any] = {
        "name": "vllm",
        "image": _IMAGE,
        "modelCommand": "vllmServe",
        "args": list(pool.command.arguments),
        "ports": [{"containerPort": port, "protocol": "TCP"}],
        "mountModelVolume": True,
    }
    if deployment.is_pair:
        container["env"] = [
            {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(_NIXL_PORT)},
            own_address(),
        ]
        container["ports"].append({"containerPort": _NIXL_PORT, "protocol": "TCP"})
    data = role.size("attention_dp")
    return {
        "create": True,
        "replicas": role.replicas,
        # The chart counts GPUs by them; the engine's own flags are among the arguments.
        "parallelism": {"tensor": role.size("tp") * role.size("pp"), "data": data, "dataLocal": data},
        "containers": [container],
    }


def _picker(deployment: Deployment) -> dict[str, Any]:
    """Pick by load, and by cached prefixes too where the candidate was routed so."""
    filters = ["prefill-filter", "decode-filter"] if deployment.is_pair else ["decode-filter"]
    scorers = {"queue-scorer": _QUEUE_WEIGHT}
    if deployment.routes_by_cache:
        scorers = {"prefix-cache-scorer": _PREFIX_WEIGHT, **scorers}
    handlers: list[dict[str, Any]] = [{"type": "single-profile-handler"}]
    if deployment.is_pair:
        handlers = [
            {"type": "always-disagg-pd-decider"},
            {
                "type": "disagg-profile-handler",
                "parameters": {"deciders": {"prefill": "always-disagg-pd-decider"}},
            },
        ]
    profiles = [
        {
            "name": name.removesuffix("-filter") if deployment.is_pair else "default",
            "plugins": [
                {"pluginRef": name},
                {"pluginRef": "max-score-picker"},
                *({"pluginRef": scorer, "weight": weight} for scorer, weight in scorers.items()),
            ],
        }
        for name in filters
    ]
    return {
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [*({"type": name} for name in (*scorers, *filters, "max-score-picker")), *handlers],
        "schedulingProfiles": profiles,
    }
