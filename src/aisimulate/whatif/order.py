"""Whether the order of candidates holds when an assumption changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.whatif.effects import Sensitivity


@dataclass(frozen=True, slots=True)
class Reordering:
    """A variant under which another candidate comes first, or the order behind the first one changes.

    `order` lists candidates by their place in the given list, best first; `values` are those of the goal in
    the given order, None where the replay failed.
    """

    name: str
    title: str
    order: Sequence[int]
    values: Sequence[float | None]

    @property
    def changes_first(self) -> bool:
        """Whether another candidate comes first."""
        return self.order[0] != 0


@dataclass(frozen=True, slots=True)
class Robustness:
    """The order under every variant that all candidates have: `held` counts those that leave it alone."""

    held: int
    reorderings: Sequence[Reordering]
    single: Sequence[str]
    """Names of the variants that not all candidates have."""


def robustness(candidates: Sequence[Sensitivity]) -> Robustness:
    """Compare candidates under each variant; the given order is that of the base, best first."""
    names = list(dict.fromkeys(effect.name for one in candidates for effect in one.effects))
    base = _order(candidates, [one.value for one in candidates])
    held, reorderings, single = 0, [], []
    for name in names:
        effects = [one.effect(name) for one in candidates]
        if any(effect is None for effect in effects):
            single.append(name)
            continue
        values = [None if effect is None else effect.value for effect in effects]
        order = _order(candidates, values)
        if order == base:
            held += 1
        else:
            title = next(effect.title for effect in effects if effect is not None)
            reorderings.append(Reordering(name, title, [base.index(place) for place in order], values))
    return Robustness(held, reorderings, single)


def _order(candidates: Sequence[Sensitivity], values: Sequence[float | None]) -> list[int]:
    """List places from best to worst; equal ones as given, what failed last."""
    sign = -1.0 if candidates[0].target.maximize else 1.0
    keys = [float("inf") if value is None else sign * value for value in values]
    return sorted(range(len(keys)), key=keys.__getitem__)
