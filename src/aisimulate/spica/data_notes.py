"""What a user must know of the performance data behind a search before trusting its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.errors import AISimulateError
from aisimulate.spica.kv_estimate import estimator_missing_reason, resolve_backend_version, shape_engine_key
from aisimulate.spica.parallel_enum import role_pools
from aisimulate.timing.aic.quant import resolve_modes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisimulate.spica.config_space import SearchSpace
    from aisimulate.spica.parallel_enum import ParallelShape
    from aisimulate.spica.search_space import BranchSpace


def data_notes(space: SearchSpace, branches: Iterable[BranchSpace]) -> list[str]:
    """Tell of data that are measured but not plausible, or that stand in for others; each note once.

    Data types are those of the checkpoint, so one shape speaks for all shapes of its backend.
    """
    if estimator_missing_reason():
        return []
    notes: dict[str, None] = {}
    for backend, shape in dict(_first_shapes(branches)).items():
        notes |= dict.fromkeys(_advisories(space, backend, shape))
    return list(notes)


def _advisories(space: SearchSpace, backend: str, shape: ParallelShape) -> tuple[str, ...]:
    """List what is to be known of one engine; nothing of a model that only the user's evaluator knows."""
    try:
        key = shape_engine_key(
            shape,
            model_name=space.model_name,
            hardware_sku=space.hardware_sku,
            backend=backend,
            backend_version=resolve_backend_version(
                space.hardware_sku, backend, space.backend_version.get(backend)
            ),
            allow_model_download=space.allow_model_download,
        )
        return tuple(resolve_modes(key).advisories)
    except AISimulateError:
        return ()


def _first_shapes(branches: Iterable[BranchSpace]) -> Iterator[tuple[str, ParallelShape]]:
    """Yield a shape of each backend in each branch."""
    for branch in branches:
        found: dict[str, ParallelShape] = {}
        for config in branch.parallel_configs:
            shape = next(iter(role_pools(config).values())).shape
            for backend in sorted(branch.supported_backends[config]):
                found.setdefault(backend, shape)
        yield from found.items()
