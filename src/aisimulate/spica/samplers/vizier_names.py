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

    Raises InputError for a variable that is not one of `ALGORITHMS`.
    """
    if asked is not None:
        return asked
    for variable in VARIABLES:
        name = environment.get(variable)
        if name and name not in ALGORITHMS:
            raise InputError(
                f"{variable}: {name!r} is not one of {', '.join(ALGORITHMS)}{nearest(name, ALGORITHMS)}"
            )
        if name:
            return name
    return DEFAULT_ALGORITHM
