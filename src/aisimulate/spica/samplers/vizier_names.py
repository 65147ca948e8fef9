"""Which algorithm of Vizier a search uses: known before Vizier is loaded (spec 05 section 7, D37)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

# The newer name first.
VARIABLES = ("AISIMULATE_SWEEPER_VIZIER_ALGO", "SPICA_VIZIER_ALGO")
DEFAULT_ALGORITHM = "DEFAULT"
# Those that a seed determines. Vizier's others need packages that it does not bring.
ALGORITHMS = (
    DEFAULT_ALGORITHM,
    "GP_UCB_PE",
    "GAUSSIAN_PROCESS_BANDIT",
    "RANDOM_SEARCH",
    "QUASI_RANDOM_SEARCH",
    "GRID_SEARCH",
    "SHUFFLED_GRID_SEARCH",
    "NSGA2",
)


def vizier_algorithm(asked: str | None, environment: Mapping[str, str]) -> str:
    """Choose the algorithm: what the config asks for, else the variable's, else Vizier's default.

    Raises InputError, naming the source, for a name that is not one of `ALGORITHMS`.
    """
    if asked is not None:
        return checked_algorithm(asked, "sweep.sampler_algorithm", ALGORITHMS)
    for variable in VARIABLES:
        if environment.get(variable):
            return checked_algorithm(environment[variable], variable, ALGORITHMS)
    return DEFAULT_ALGORITHM


def checked_algorithm(name: str, source: str, legal: tuple[str, ...]) -> str:
    """Return a name that is legal; raise InputError for any other."""
    if name not in legal:
        raise InputError(f"{source}: {name!r} is not one of {', '.join(legal)}{nearest(name, legal)}")
    return name
