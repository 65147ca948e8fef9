"""What stands in front of the workers of a compose file: a balancer, or what joins the pools of a pair."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aisimulate.report.engines.command import option
from aisimulate.report.export.config_map import FOLDER
from aisimulate.report.export.texts import yaml_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PORT = 8000
"""Where every worker, and the front, listens."""

_BOOTSTRAP_PORT = 8998
"""Where a prefill worker of SGLang tells decode workers how to fetch KV, if not told otherwise."""

NIXL_HOST = "VLLM_NIXL_SIDE_CHANNEL_HOST"
"""Where a prefill worker of vLLM says that its KV is; localhost if it is not told."""

_VLLM_ROUTER = "vllm/vllm-router:nightly"
"""Dated tags of it are made, releases are not."""


@dataclass(frozen=True, slots=True)
class Front:
    """A container by its image and its command, where not the image's own, and the places of its files."""

    image: str
    command: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)


def own_address() -> dict[str, Any]:
    """Tell a container of Kubernetes where decode workers find its KV: at its pod, not at localhost."""
    return {"name": NIXL_HOST, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def balancer(workers: Iterable[str]) -> Front:
    """Make a round robin over the workers of a single pool."""
    servers = "".join(f"    server {name}:{PORT};\n" for name in workers)
    text = (
        "# Round robin over the workers, as it was simulated.\n"
        "events {}\n"
        "http {\n"
        f"  upstream workers {{\n{servers}  }}\n"
        "  server {\n"
        f"    listen {PORT};\n"
        "    location / {\n"
        "      proxy_pass http://workers;\n"
        "      proxy_buffering off;\n"
        "      proxy_read_timeout 1h;\n"
        "    }\n  }\n}\n"
    )
    return Front("nginx:stable", [], {"nginx.conf": text}, {"nginx.conf": "/etc/nginx/nginx.conf"})


def pair_front(backend: str, image: str, pools: Mapping[str, list[str]]) -> Front:
    """Make what sends a prompt to a prefill, then to a decode worker.

    `pools` has the names of the workers by role.
    """
    makers = {"vllm": _vllm_router, "sglang": _sglang_router, "trtllm": _trtllm_server}
    return makers[backend](image, pools)


def _vllm_router(image: str, pools: Mapping[str, list[str]]) -> Front:
    """The project's own router, which has an image of its own. NIXL is the connector that it expects."""
    command = ["vllm-router", "--vllm-pd-disaggregation"]
    for role in ("prefill", "decode"):
        for name in pools[role]:
            command += option(f"--{role}", f"http://{name}:{PORT}")
    command += option("--policy", "round_robin")
    return Front(_VLLM_ROUTER, [*command, *option("--host", "0.0.0.0"), *option("--port", PORT)])


def _sglang_router(image: str, pools: Mapping[str, list[str]]) -> Front:
    command = ["python3", "-m", "sglang_router.launch_router", "--pd-disaggregation"]
    for name in pools["prefill"]:
        command += ["--prefill", f"http://{name}:{PORT}", str(_BOOTSTRAP_PORT)]
    for name in pools["decode"]:
        command += option("--decode", f"http://{name}:{PORT}")
    command += option("--policy", "round_robin")
    return Front(image, [*command, *option("--host", "0.0.0.0"), *option("--port", PORT)])


def _trtllm_server(image: str, pools: Mapping[str, list[str]]) -> Front:
    keys = {"context_servers": "prefill", "generation_servers": "decode"}
    settings: dict[str, object] = {"hostname": "0.0.0.0", "port": PORT, "backend": "pytorch"}
    for key, role in keys.items():
        urls = [f"{name}:{PORT}" for name in pools[role]]
        settings[key] = {"num_instances": len(urls), "router": {"type": "round_robin"}, "urls": urls}
    file = "trtllm-front.yaml"
    place = f"{FOLDER}/{file}"
    return Front(
        image,
        ["trtllm-serve", "disaggregated", "-c", place],
        {file: yaml_text([settings], "")},
        {file: place},
    )
