"""The commands of the engine itself, one shell script for each role."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.report.export.coverage import unexpressed
from aisimulate.report.export.deployment import Export, refuse_nodes
from aisimulate.report.export.texts import head

if TYPE_CHECKING:
    from aisimulate.report.export.deployment import Deployment, Pool

_PAIRS = {
    "vllm": "a proxy that sends each prompt to a prefill worker and then to a decode worker",
    "sglang": "`python -m sglang_router.launch_router --pd-disaggregation` with the addresses of all workers",
    "trtllm": "`trtllm-serve disaggregated` with the addresses of all workers",
}


def export_scripts(deployment: Deployment, target: str) -> Export:
    """Write a script for each role, to be started once per replica.

    Raises InputError where the target is another engine than was simulated, or a worker spans nodes.
    """
    if deployment.backend != target:
        raise InputError(
            f"--to {target}: the candidate was simulated with {deployment.backend}; "
            f"use --to {deployment.backend}"
        )
    refuse_nodes(deployment, target)
    remarks = unexpressed(deployment, ())
    if deployment.is_pair:
        remarks.append(f"in front of both pools there must be {_PAIRS[target]}")
    export = Export(remarks=remarks)
    for pool in deployment.pools:
        export.files |= pool.command.files
        export.files[f"{pool.role.name}.sh"] = _script(deployment, pool, remarks)
    return export


def _script(deployment: Deployment, pool: Pool, remarks: list[str]) -> str:
    lines = [
        _how_to_start(pool.role.replicas, pool.role.gpus_per_worker),
        "set -eu",
        'cd "$(dirname "$0")"',
        f'exec {shlex.join(pool.command.argv)} "$@"',
    ]
    return "#!/bin/sh\n" + head(deployment, remarks) + "".join(f"{line}\n" for line in lines)


def _how_to_start(replicas: int, gpus: int) -> str:
    on = f"{gpus} GPU{'s' * (gpus > 1)} of its own (CUDA_VISIBLE_DEVICES)"
    if replicas == 1:
        return f"# Start it once, on {on}."
    return f"# Start it {replicas} times, each on {on} and with a --port of its own."
