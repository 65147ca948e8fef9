"""Finds placement policies of the user's: entry points of the group `aisimulate.placements`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.core.shown import show

if TYPE_CHECKING:
    from aisimulate.config.spec import Provider
    from aisimulate.router.policy import PlacementPolicy

GROUP = "aisimulate.placements"


def policy_names() -> list[str]:
    """List the names of the installed policies."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def make_policy(provider: Provider, path: str = "spec.adapters.placement") -> PlacementPolicy:
    """Make a policy; its settings are the keyword arguments of its class. Raises `InputError`."""
    (point, *_) = entry_points(group=GROUP, name=provider.provider)
    settings = {} if provider.config is None else provider.config
    if not isinstance(settings, dict):
        raise InputError(f"{path}.config: {show(settings)} is not an object")
    try:
        policy: Any = point.load()(**settings)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{path}: {point.value} cannot be made: {_one_line(error)}") from error
    if not callable(getattr(policy, "choose", None)):
        raise InputError(f"{path}.provider: {point.value} has no method choose(request, targets)")
    return policy  # type: ignore[no-any-return]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
