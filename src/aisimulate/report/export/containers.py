"""The engines in containers of their own: a compose file for one machine, and plain Kubernetes resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.report.engines.command import option
from aisimulate.report.export.config_map import FOLDER, config_map, mount_files
from aisimulate.report.export.coverage import unexpressed
from aisimulate.report.export.deployment import GPUS_PER_NODE, Export, mount_remarks, refuse_nodes
from aisimulate.report.export.fronts import NIXL_HOST, PORT, Front, balancer, own_address, pair_front
from aisimulate.report.export.texts import head, yaml_text

if TYPE_CHECKING:
    from aisimulate.report.export.deployment import Deployment, Pool

_IMAGES = {
    "vllm": "vllm/vllm-openai:v{}",
    "sglang": "lmsysorg/sglang:v{}",
    "trtllm": "nvcr.io/nvidia/tensorrt-llm/release:{}",
}
_AT_OWN_ADDRESS = f'{NIXL_HOST}="$$(hostname -i | cut -d" " -f1)" exec "$$@"'
_PAIR_REMARK = "the way from a prefill to a decode worker: a proxy for the engine has to join the two pools"


def export_compose(deployment: Deployment, target: str) -> Export:
    """Write a compose file with a service per worker, and what stands in front of them.

    Raises InputError for workers that span nodes.
    """
    refuse_nodes(deployment, target)
    remarks = unexpressed(deployment, ())
    services: dict[str, Any] = {}
    first_gpu = 0
    for pool in deployment.pools:
        for number in range(pool.role.replicas):
            services[f"{pool.role.name}-{number}"] = _service(deployment, pool, first_gpu)
            first_gpu += pool.role.gpus_per_worker
    workers = list(services)
    front = _fronted(deployment, workers)
    services["front"] = _front_service(front, workers)
    files = deployment.files | front.files
    if first_gpu > GPUS_PER_NODE:
        remarks.append(f"more than one machine: the GPUs are numbered 0 to {first_gpu - 1} on this one")
    document = {"services": services, "volumes": {"huggingface": {}}}
    text = yaml_text([document], head(deployment, remarks))
    return Export({"compose.yaml": text, **files}, remarks)


def export_kubernetes(deployment: Deployment, target: str) -> Export:
    """Write a Deployment and a Service for each role, and for what joins pools of vLLM.

    Raises InputError for workers that span nodes.
    """
    refuse_nodes(deployment, target)
    remarks = [*unexpressed(deployment, ()), *mount_remarks(deployment)]
    is_joined = _transfers_by_nixl(deployment)
    if deployment.is_pair and not is_joined:
        remarks.append(_PAIR_REMARK)
    files = deployment.files
    documents = [config_map(deployment, files)] if files else []
    for pool in deployment.pools:
        documents += [
            _kubernetes_deployment(deployment, pool),
            _kubernetes_service(deployment, pool.role.name),
        ]
    if is_joined:
        documents += _kubernetes_front(deployment)
    return Export({"kubernetes.yaml": yaml_text(documents, head(deployment, remarks))}, remarks)


def _transfers_by_nixl(deployment: Deployment) -> bool:
    """Whether vLLM's pools hand KV over by NIXL, for which the router may reach them as services."""
    return deployment.is_pair and deployment.backend == "vllm"


def _image(deployment: Deployment) -> str:
    return _IMAGES[deployment.backend].format(deployment.version)


def _arguments(pool: Pool) -> list[str]:
    """Give the arguments in a container, where files lie in a folder and the server must listen to all."""
    command = pool.command
    named = [f"{FOLDER}/{item}" if item in command.files else item for item in command.argv]
    served = [*option("--host", "0.0.0.0"), *option("--port", PORT)]
    return [*named, *served]


# Compose ----------------------------------------------------------------------------------------------


def _service(deployment: Deployment, pool: Pool, first_gpu: int) -> dict[str, Any]:
    last_gpu = first_gpu + pool.role.gpus_per_worker
    device = {
        "driver": "nvidia",
        "device_ids": [str(gpu) for gpu in range(first_gpu, last_gpu)],
        "capabilities": ["gpu"],
    }
    service: dict[str, Any] = {
        "image": _image(deployment),
        "entrypoint": [],
        "command": [_escaped(item) for item in _arguments(pool)],
        "ipc": "host",
        "environment": {"HF_TOKEN": "${HF_TOKEN:-}"},
        "volumes": ["huggingface:/root/.cache/huggingface"],
        "deploy": {"resources": {"reservations": {"devices": [device]}}},
    }
    if _transfers_by_nixl(deployment):
        service["entrypoint"] = ["/bin/sh", "-c", _AT_OWN_ADDRESS, "vllm"]
    service["volumes"] += [f"./{name}:{FOLDER}/{name}:ro" for name in pool.command.files]
    if deployment.model_folder is not None:
        source, inside = _escaped(deployment.model_folder), _escaped(deployment.model)
        service["volumes"].append({"type": "bind", "source": source, "target": inside, "read_only": True})
    return service


def _escaped(text: str) -> str:
    """Keep compose from reading `$` as a variable."""
    return text.replace("$", "$$")


def _fronted(deployment: Deployment, workers: list[str]) -> Front:
    if not deployment.is_pair:
        return balancer(workers)
    pools = {role: [name for name in workers if name.startswith(role)] for role in ("prefill", "decode")}
    return pair_front(deployment.backend, _image(deployment), pools)


def _front_service(front: Front, workers: list[str]) -> dict[str, Any]:
    own = {"entrypoint": [], "command": front.command} if front.command else {}
    service = {
        "image": front.image,
        **own,
        "ports": [f"127.0.0.1:{PORT}:{PORT}"],
        "volumes": [f"./{name}:{place}:ro" for name, place in front.places.items()],
        "depends_on": workers,
    }
    return {key: value for key, value in service.items() if value or key == "entrypoint"}


# Kubernetes -------------------------------------------------------------------------------------------


def _labels(deployment: Deployment, component: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": deployment.name, "app.kubernetes.io/component": component}


def _kubernetes_deployment(deployment: Deployment, pool: Pool) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "engine",
        "image": _image(deployment),
        "command": _arguments(pool),
        "ports": [{"containerPort": PORT}],
        "envFrom": [{"secretRef": {"name": "hf-token-secret", "optional": True}}],
        "resources": {"limits": {"nvidia.com/gpu": str(pool.role.gpus_per_worker)}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": PORT}, "failureThreshold": 3},
        "startupProbe": {
            "httpGet": {"path": "/health", "port": PORT},
            "periodSeconds": 10,
            "failureThreshold": 360,
        },
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    if _transfers_by_nixl(deployment):
        container["env"] = [own_address()]
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    spec = {"containers": [container], "volumes": volumes}
    if pool.command.files:
        mount_files(deployment, spec)
    pod = {"metadata": {"labels": _labels(deployment, pool.role.name)}, "spec": spec}
    return _kubernetes_workload(deployment, pool.role.name, pool.role.replicas, pod)


def _kubernetes_front(deployment: Deployment) -> list[dict[str, Any]]:
    """What joins the pools, which it reaches as services."""
    pools = {pool.role.name: [f"{deployment.name}-{pool.role.name}"] for pool in deployment.pools}
    front = pair_front(deployment.backend, _image(deployment), pools)
    labels = _labels(deployment, "front")
    container = {
        "name": "front",
        "image": front.image,
        "command": front.command,
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": PORT}, "failureThreshold": 3},
    }
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return [_kubernetes_workload(deployment, "front", 1, pod), _kubernetes_service(deployment, "front")]


def _kubernetes_workload(
    deployment: Deployment, name: str, replicas: int, pod: dict[str, Any]
) -> dict[str, Any]:
    labels = _labels(deployment, name)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{deployment.name}-{name}", "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod},
    }


def _kubernetes_service(deployment: Deployment, name: str) -> dict[str, Any]:
    labels = _labels(deployment, name)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"{deployment.name}-{name}", "labels": labels},
        "spec": {"selector": labels, "ports": [{"port": PORT, "targetPort": PORT}]},
    }
