"""The samplers that a config may name, and what each needs to be installed. Loads none of them."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec

from aisimulate.core.errors import InputError, nearest
from aisimulate.core.shown import show_python
from aisimulate.spica.samplers.vizier_names import ALGORITHMS as VIZIER_ALGORITHMS

# A sampler of the user's: `name = "package.module:factory"`, called as `sampler_factory` is.
GROUP = "aisimulate.samplers"

AUTO = "auto"
SAMPLER_POLICIES = ("pool-gp", "random", "quasi-random", "grid", "focused", "optuna", "vizier")
# The algorithms to choose from; the first is the default.
SAMPLER_ALGORITHMS = {"optuna": ("tpe", "nsga2"), "vizier": VIZIER_ALGORITHMS}
# The extra that brings a sampler has its name; these modules tell whether it is there.
_MODULES = {"optuna": ("optuna",), "vizier": ("vizier.service", "jax", "equinox")}


def checked_sampler_name(name: str) -> str:
    """Return a name that is legal here; raise ValueError for any other."""
    if name in (AUTO, *SAMPLER_POLICIES):
        return name
    installed = sorted({point.name for point in entry_points(group=GROUP)})
    if name in installed:
        return name
    legal = (AUTO, *SAMPLER_POLICIES, *installed)
    raise ValueError(f"{show_python(name)} is not one of {', '.join(legal)}{nearest(name, legal)}")


def check_sampler_algorithm(sampler: str, algorithm: str | None) -> None:
    """Raise ValueError for an algorithm that a sampler does not have."""
    if algorithm is None:
        return
    legal = SAMPLER_ALGORITHMS.get(sampler)
    if legal is None:
        raise ValueError(
            f"sampler_algorithm: the sampler {sampler} has none to choose from; "
            f"{' and '.join(SAMPLER_ALGORITHMS)} have"
        )
    if algorithm not in legal:
        raise ValueError(
            f"sampler_algorithm: {show_python(algorithm)} is not one of {', '.join(legal)}"
            f"{nearest(algorithm, legal)}"
        )


def require_sampler(name: str) -> None:
    """Raise InputError, with what to install, for a sampler whose extra is missing."""
    _require_extra("sampler", name, _MODULES.get(name, ()))


def require_executor(name: str) -> None:
    """Raise InputError, with what to install, for an executor whose extra is missing."""
    _require_extra("executor", name, ("ray",) if name == "ray" else ())


def _require_extra(field: str, name: str, modules: tuple[str, ...]) -> None:
    missing = [module for module in modules if not _is_installed(module)]
    if missing:
        raise InputError(
            f"sweep.{field}: {name} needs an extra that is not installed "
            f"({missing[0].split('.')[0]} is missing): pip install 'aisimulate[{name}]'"
        )


def foreign_sampler(name: str) -> EntryPoint | None:
    """Find the installed sampler of somebody else's that has this name."""
    return next(iter(entry_points(group=GROUP, name=name)), None)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # its parent is missing
        return False
