"""Holds a sampler, which may be anybody's, to its contract, so that the round loop can rely on it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from numbers import Real
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import AISimulateError
from aisimulate.core.shown import show_python
from aisimulate.spica.choices import choice_key
from aisimulate.spica.parallel_enum import DisaggParallelConfig, ReplicaParallelConfig
from aisimulate.spica.samplers.base import BranchSampler, SamplerContractError, Suggestion

if TYPE_CHECKING:
    from aisimulate.spica.search_space import BranchSpace

SamplerFactory = Callable[..., BranchSampler]

_METHODS = ("suggest", "observe", "observe_infeasible")


class CheckedSampler:
    """Passes calls on to a sampler; everything it does wrong becomes a SamplerContractError.

    `gave_too_many` tells whether it ever offered more than it was asked for.
    """

    def __init__(self, sampler: BranchSampler) -> None:
        self.gave_too_many = False
        self._sampler = sampler
        self._name = type(sampler).__name__

    def suggest(self, count: int) -> list[Suggestion]:
        """Ask for up to `count` suggestions. Any iterable will do, an endless one too; the rest is cut."""
        with _blaming(f"{self._name}.suggest"):
            given = self._sampler.suggest(count)
            if given is None:
                raise SamplerContractError(f"{self._name}.suggest returned None, not a list of Suggestion")
            items = list(islice(given, count + 1))
        self.gave_too_many |= len(items) > count
        for item in items[:count]:
            self._check(item)
        return items[:count]

    def observe(self, suggestion: Suggestion, metrics: Mapping[str, float]) -> None:
        """Tell it a measured result."""
        with _blaming(f"{self._name}.observe"):
            self._sampler.observe(suggestion, metrics)

    def observe_failure(self, suggestion: Suggestion, reason: str, missed: Mapping[str, float]) -> None:
        """Tell it that a suggestion has no result; and by how much it missed bounds, if it asks for that."""
        near_miss = getattr(self._sampler, "observe_missed", None)
        if missed and callable(near_miss):
            with _blaming(f"{self._name}.observe_missed"):
                near_miss(suggestion, dict(missed))
            return
        with _blaming(f"{self._name}.observe_infeasible"):
            self._sampler.observe_infeasible(suggestion, reason)

    def notes(self) -> list[str]:
        """Return what it has to say to the user so far; not every sampler says anything."""
        with _blaming(f"{self._name}.notes"):
            return [str(note) for note in getattr(self._sampler, "notes", list)()]

    def _check(self, item: object) -> None:
        selection = getattr(item, "selection", None)
        if not isinstance(selection, Mapping) or not all(isinstance(name, str) for name in selection):
            raise SamplerContractError(
                f"{self._name}.suggest returned {show_python(item)}, which is no Suggestion with a selection"
            )
        config = getattr(item, "parallel_config", None)
        if not isinstance(config, ReplicaParallelConfig | DisaggParallelConfig):
            raise SamplerContractError(
                f"{self._name}.suggest returned a Suggestion whose parallel_config is {show_python(config)}"
            )


def build_sampler(
    factory: SamplerFactory,
    branch: BranchSpace,
    *,
    study_id: str,
    objectives: list[tuple[str, bool]] | None,
    extras: Mapping[str, Any],
) -> BranchSampler:
    """Call a user's factory, with those of the `extras` that its signature names.

    Raises:
        SamplerContractError: it cannot be called or does not return a sampler.
        AISimulateError: whatever else of ours it raised, such as a grid that refuses the branch.
    """
    if not callable(factory):
        raise SamplerContractError(f"sampler_factory must be callable, got {show_python(factory)}")
    with _blaming("sampler_factory"):
        sampler = factory(branch, study_id=study_id, objectives=objectives, **_accepted(factory, extras))
    lacking = [name for name in _METHODS if not callable(getattr(sampler, name, None))]
    if lacking:
        raise SamplerContractError(
            f"sampler_factory returned {show_python(sampler)}, which has no {' and no '.join(lacking)}"
        )
    return sampler


@contextmanager
def closing_sampler(sampler: BranchSampler) -> Iterator[None]:
    """Close a sampler at the end, if it has anything to close."""
    try:
        yield
    finally:
        close = getattr(sampler, "close", None)
        if callable(close):
            with _blaming(f"{type(sampler).__name__}.close"):
                close()


class ForeignChoice(AISimulateError, ValueError):
    """A suggestion holds a value that its branch does not offer."""


def own_choices(suggestion: Suggestion, branch: BranchSpace) -> dict[str, Any]:
    """Return a suggestion's selection in the branch's own values: 256 for 256.0 or a NumPy integer.

    The backend is taken as it is, for a branch may know backends that it does not search, and so are knobs
    that the branch does not have.

    Raises:
        ForeignChoice: a value is none of the branch's.
    """
    choices = {"deployment_mode": [branch.deployment_mode], "backend": [], **branch.knob_choices}
    return {
        name: _own_value(name, value, choices, branch.float_ranges)
        for name, value in suggestion.selection.items()
    }


def _accepted(factory: SamplerFactory, extras: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the keyword arguments that a factory's signature takes; without a signature, none."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return {}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return dict(extras)
    return {name: value for name, value in extras.items() if name in parameters}


@contextmanager
def _blaming(what: str) -> Iterator[None]:
    """Name whose code it was that raised an error not our own."""
    try:
        yield
    except AISimulateError:
        raise
    except Exception as error:
        raise SamplerContractError(f"{what} raised {type(error).__name__}: {error}") from error


def _own_value(
    name: str,
    value: object,
    choices: Mapping[str, Sequence[Any]],
    ranges: Mapping[str, tuple[float, float]],
) -> object:
    if name in ranges:
        return _own_number(name, value, *ranges[name])
    if name not in choices or (name == "backend" and isinstance(value, str)):
        return value
    return _own_choice(name, value, choices[name])


def _own_choice(name: str, value: object, choices: Sequence[Any]) -> object:
    for choice in choices:
        if choice is value or (type(choice) is type(value) is str and choice == value):
            return choice  # as samplers of ours give them
    with suppress(TypeError, ValueError, OverflowError):  # what no config could have listed has no key
        key = choice_key(_plain(value))
        for choice in choices:
            if choice_key(choice) == key:
                return choice
    raise ForeignChoice(f"{name}={show_python(value)} is not one of {show_python(list(choices))}")


def _own_number(name: str, value: object, low: float, high: float) -> float:
    number = _plain(value)
    if isinstance(number, float) and low <= number <= high:
        return number
    raise ForeignChoice(f"{name}={show_python(value)} is not a number from {low} to {high}")


def _plain(value: object) -> object:
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            return float(value)
    return value
