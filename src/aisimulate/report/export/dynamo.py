"""A DynamoGraphDeployment (nvidia.com/v1beta1) for Dynamo 1.6: frontend with its router, workers, planner.

The names of flags and fields are those of the 1.6.1 release of the `ai-dynamo` package.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.report.engines.command import option
from aisimulate.report.engines.trtllm import engine_file_lines
from aisimulate.report.export.config_map import FOLDER, config_map, mount_files
from aisimulate.report.export.coverage import ADMISSION, PLANNER, ROUTER, unexpressed
from aisimulate.report.export.deployment import GPUS_PER_NODE, Export, mount_remarks
from aisimulate.report.export.texts import head, yaml_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.report.engines.command import Role
    from aisimulate.report.export.deployment import Deployment, Pool

DYNAMO_VERSION = "1.6.1"

_IMAGES = {"vllm": "vllm-runtime", "sglang": "sglang-runtime", "trtllm": "tensorrtllm-runtime"}
_TYPES = {"agg": "worker", "prefill": "prefill", "decode": "decode"}
_ROUTER_FLAGS = {
    "overlap_score_credit": "--router-kv-overlap-score-credit",
    "prefill_load_scale": "--router-prefill-load-scale",
    "host_cache_hit_weight": "--router-host-cache-hit-weight",
    "disk_cache_hit_weight": "--router-disk-cache-hit-weight",
    "router_temperature": "--router-temperature",
}
_ADMISSION_FLAGS = {
    "active_decode_blocks_threshold": "--active-decode-blocks-threshold",
    "active_prefill_tokens_threshold": "--active-prefill-tokens-threshold",
    "active_prefill_tokens_threshold_frac": "--active-prefill-tokens-threshold-frac",
}
_KV_EVENTS = {"publisher": "zmq", "topic": "kv-events", "endpoint": "tcp://*:20080"}
_PREDICTORS = ("constant", "arima", "kalman", "prophet")
# Where a prefill worker of SGLang is found by those that decode.
_BOOTSTRAP_PORT = 12345


def export_dynamo(deployment: Deployment, target: str) -> Export:
    """Write the resource, with a ConfigMap where a component reads a file.

    Raises InputError for a planner that Dynamo has not.
    """
    del target
    remarks = [
        *unexpressed(deployment, (ROUTER, ADMISSION, PLANNER)),
        *mount_remarks(deployment),
        *_image_remarks(deployment),
    ]
    files = _config_files(deployment)
    components = [_frontend(deployment), *(_worker(deployment, pool) for pool in deployment.pools)]
    if deployment.planner is not None:
        components.append(_planner(deployment))
    graph = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": deployment.name},
        "spec": {"components": components},
    }
    documents = [config_map(deployment, files), graph] if files else [graph]
    text = yaml_text(documents, head(deployment, remarks))
    return Export({"dynamo.yaml": text}, remarks)


def _image_remarks(deployment: Deployment) -> list[str]:
    return [
        f"the engine's version: the image is that of Dynamo {DYNAMO_VERSION}; {deployment.backend} "
        f"{deployment.version} was simulated"
    ]


def _config_files(deployment: Deployment) -> dict[str, str]:
    files: dict[str, str] = {}
    if deployment.backend == "trtllm":
        for pool in deployment.pools:
            lines = engine_file_lines(pool.role)
            files[f"{pool.role.name}.yaml"] = "".join(f"{line}\n" for line in lines)
    if deployment.planner is not None:
        files["planner.json"] = json.dumps(_planner_settings(deployment), indent=2) + "\n"
    return files


# Components -------------------------------------------------------------------------------------------


def _frontend(deployment: Deployment) -> dict[str, Any]:
    arguments = ["-m", "dynamo.frontend", *router_arguments(deployment.config)]
    container = _container(deployment, ["python3"], arguments)
    return _component("Frontend", "frontend", 1, container)


def router_arguments(config: Mapping[str, Any]) -> list[str]:
    """Give the frontend's options for the router and its admission control."""
    by_cache = config.get("router_mode") == "kv_router"
    arguments = [*option("--router-mode", "kv" if by_cache else "round-robin")]
    for name, flag in _ROUTER_FLAGS.items():
        if by_cache and config.get(name) is not None:
            arguments += option(flag, float(config[name]))
    for name, flag in _ADMISSION_FLAGS.items():
        if config.get(name) is not None:
            arguments += option(flag, config[name])
    return arguments


def _worker(deployment: Deployment, pool: Pool) -> dict[str, Any]:
    command = ["python3", "-m", f"dynamo.{deployment.backend}"]
    container = _container(deployment, command, worker_arguments(deployment, pool))
    nodes = pool.nodes_per_worker
    gpus = min(pool.role.gpus_per_worker, GPUS_PER_NODE)
    container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    worker = _component(pool.role.name, _TYPES[pool.role.name], pool.role.replicas, container)
    if deployment.backend == "trtllm":
        mount_files(deployment, worker["podTemplate"]["spec"])
    if nodes > 1:
        worker["multinode"] = {"nodeCount": nodes}
    return worker


def worker_arguments(deployment: Deployment, pool: Pool) -> list[str]:
    """Give the arguments of a Dynamo worker: those of its engine, and Dynamo's own."""
    if deployment.backend == "trtllm":
        return _trtllm_arguments(deployment, pool.role)
    model = [*option("--model" if deployment.backend == "vllm" else "--model-path", deployment.model)]
    arguments = [*model, *pool.command.arguments]
    if deployment.backend == "vllm" and deployment.is_pair:
        arguments += option("--disaggregation-mode", pool.role.name)
    if deployment.backend == "sglang" and deployment.is_pair:
        arguments += option("--disaggregation-bootstrap-port", _BOOTSTRAP_PORT)
        arguments += option("--host", "0.0.0.0")
    if deployment.routes_by_cache and pool.role.setting("enable_prefix_caching"):
        events = {"enable_kv_cache_events": True} if deployment.backend == "vllm" else {}
        arguments += option("--kv-events-config", json.dumps({**events, **_KV_EVENTS}))
    return arguments


def _trtllm_arguments(deployment: Deployment, role: Role) -> list[str]:
    arguments = [
        *option("--model", deployment.model),
        *option("--tensor-parallel-size", role.size("tp") * role.size("attention_dp")),
        *option("--pipeline-parallel-size", role.size("pp")),
        *option("--expert-parallel-size", role.size("moe_ep")),
        *option("--max-num-tokens", role.setting("max_num_batched_tokens")),
        *option("--max-batch-size", role.setting("max_num_seqs")),
        *option("--kv-block-size", role.setting("block_size")),
        *option("--free-gpu-memory-fraction", float(role.setting("gpu_memory_utilization"))),
    ]
    if role.size("attention_dp") > 1:
        arguments.append("--enable-attention-dp")
    if role.config.get("context_length") is not None:
        arguments += option("--max-seq-len", role.config["context_length"])
    arguments += option("--extra-engine-args", f"{FOLDER}/{role.name}.yaml")
    if role.is_pair:
        arguments += option("--disaggregation-mode", role.name)
    if deployment.routes_by_cache and role.setting("enable_prefix_caching"):
        arguments.append("--publish-kv-events")
    return arguments


def _planner(deployment: Deployment) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": f"nvcr.io/nvidia/ai-dynamo/dynamo-planner:{DYNAMO_VERSION}",
        "command": ["python3", "-m", "dynamo.planner"],
        "args": ["--config", f"{FOLDER}/planner.json"],
    }
    planner = _component("Planner", "planner", 1, container)
    mount_files(deployment, planner["podTemplate"]["spec"])
    return planner


def _planner_settings(deployment: Deployment) -> dict[str, Any]:
    """Give the planner's settings, which bear the reference's names already."""
    settings = {name: value for name, value in (deployment.planner or {}).items() if value is not None}
    if settings.pop("planner_mode", "reference") == "direct":
        raise InputError(
            f"planner_scaling_policy {deployment.config['planner_scaling_policy']}: sizes pools by the "
            "simulator's own timing, which Dynamo's planner cannot do; export a candidate without `direct_`"
        )
    predictor = settings.get("load_predictor")
    if predictor is not None and predictor not in _PREDICTORS:
        raise InputError(
            f"load_predictor {predictor!r} is a forecaster of ours that Dynamo's planner does not have; "
            f"it has {', '.join(_PREDICTORS)}"
        )
    own = {"environment": "kubernetes", "backend": deployment.backend, "model_name": deployment.model}
    return {**own, **settings}


# Parts of components ----------------------------------------------------------------------------------


def _component(name: str, kind: str, replicas: int, container: dict[str, Any]) -> dict[str, Any]:
    spec = {"containers": [container]}
    return {"name": name, "type": kind, "replicas": replicas, "podTemplate": {"spec": spec}}


def _container(deployment: Deployment, command: list[str], arguments: list[str]) -> dict[str, Any]:
    return {
        "name": "main",
        "image": f"nvcr.io/nvidia/ai-dynamo/{_IMAGES[deployment.backend]}:{DYNAMO_VERSION}",
        "command": command,
        "args": arguments,
        "envFrom": [{"secretRef": {"name": "hf-token-secret"}}],
    }
