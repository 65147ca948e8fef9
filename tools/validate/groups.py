"""The groups of runs whose errors are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.timing.aic.health import GRADES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tools.validate.scored import Scored

_BANDS = (("concurrency 1-8", 1, 8), ("9-32", 9, 32), ("33-64", 33, 64), ("above 64", 65, 1 << 62))


def groups(scored: Sequence[Scored]) -> Iterator[tuple[str, list[Scored]]]:
    """Yield each group that has runs, in a fixed order; pairs of pools are a group of their own."""
    single = [one for one in scored if not one.run.is_pair]
    yield from _named("all", single)
    yield from _named("clean", [one for one in single if one.is_clean])
    yield from _by(single, "", lambda one: one.run.backend)
    yield from _by([one for one in single if one.is_clean], "clean ", lambda one: one.run.backend)
    yield from _by(single, "", lambda one: one.run.system)
    yield from _by([one for one in single if one.is_clean], "clean ", lambda one: one.run.system)
    for name, low, high in _BANDS:
        yield from _named(name, [one for one in single if low <= one.run.concurrency <= high])
    for grade in reversed(GRADES):
        yield from _named(f"confidence {grade}", [one for one in single if one.judged.grade == grade])
    yield from _named("pairs of pools", [one for one in scored if one.run.is_pair])


def _by(
    scored: Sequence[Scored], prefix: str, key: Callable[[Scored], str]
) -> Iterator[tuple[str, list[Scored]]]:
    for value in sorted({key(one) for one in scored}):
        yield from _named(prefix + value, [one for one in scored if key(one) == value])


def _named(name: str, scored: list[Scored]) -> Iterator[tuple[str, list[Scored]]]:
    if scored:
        yield name, scored
