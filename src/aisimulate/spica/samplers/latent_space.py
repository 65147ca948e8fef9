"""A branch as the parameters of a black-box optimiser, and the way back (spec 05 section 7).

The optimiser sees latent features of the parallel config (section 6), continuous ranges and every knob with
several choices. Nothing here knows an optimiser's library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from aisimulate.spica.choices import choice_key
from aisimulate.spica.finite_space import branch_backends
from aisimulate.spica.parallel_projection import ParallelConfigProjector, ParallelParameter
from aisimulate.spica.samplers.base import Suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.spica.search_space import BranchSpace

# Optimisers refuse a space without parameters.
CONSTANT = "_spica_constant"


@dataclass(frozen=True, slots=True)
class LatentParameter:
    """One parameter. A float has bounds; the others have values: sorted numbers, or texts.

    `default` None leaves the choice to the optimiser.
    """

    name: str
    kind: Literal["float", "discrete", "categorical"]
    bounds: tuple[float, float] = (0.0, 0.0)
    values: tuple[Any, ...] = ()
    default: Any = None
    log_scale: bool = False


@dataclass(frozen=True, slots=True)
class _Knob:
    """The choices of a searched knob, and how a parameter's value stands for one."""

    choices: list[Any]

    @property
    def _is_indexed(self) -> bool:
        return any(isinstance(choice, dict) for choice in self.choices)

    @property
    def _is_text(self) -> bool:
        return all(isinstance(choice, str) for choice in self.choices)

    def parameter(self, name: str) -> LatentParameter:
        """Describe the knob to an optimiser."""
        if self._is_indexed:
            return LatentParameter(name, "categorical", values=tuple(map(str, range(len(self.choices)))))
        if self._is_text:
            default = self.choices[0] if name == "backend" else None
            return LatentParameter(name, "categorical", values=tuple(self.choices), default=default)
        return LatentParameter(name, "discrete", values=tuple(sorted(map(float, self.choices))))

    def value(self, choice: Any) -> Any:  # noqa: ANN401
        """Return the parameter's value that stands for a choice."""
        if self._is_indexed:
            return str(self.choices.index(choice))
        return str(choice) if self._is_text else float(choice)

    def choice(self, value: Any) -> Any:  # noqa: ANN401 - whatever an optimiser's library returns
        """Return the choice that a parameter's value stands for."""
        if self._is_indexed:
            return self.choices[int(value)]
        if self._is_text:
            return str(value)
        whole = all(isinstance(choice, int) for choice in self.choices)
        return round(float(value)) if whole else float(value)


class LatentSpace:
    """The parameters of a branch, in a fixed order. Equal values decode to equal suggestions."""

    def __init__(self, branch: BranchSpace) -> None:
        self._branch = branch
        distinct = {name: _distinct(choices) for name, choices in branch.knob_choices.items()}
        distinct.setdefault("backend", branch_backends(branch))
        self._constants = {name: choices[0] for name, choices in distinct.items() if len(choices) == 1}
        self._knobs = {name: _Knob(choices) for name, choices in distinct.items() if len(choices) > 1}
        self._projector = ParallelConfigProjector(branch) if len(branch.parallel_configs) > 1 else None
        self.parameters = self._features() + self._ranges()
        self.parameters += [knob.parameter(name) for name, knob in self._knobs.items()]
        if not self.parameters:
            self.parameters = [LatentParameter(CONSTANT, "categorical", values=("0",))]

    def suggestion(self, values: Mapping[str, Any], handle: object) -> Suggestion:
        """Decode the value of every parameter."""
        selection = {"deployment_mode": self._branch.deployment_mode, **self._constants}
        selection |= {name: float(values[name]) for name in self._branch.float_ranges}
        selection |= {name: knob.choice(values[name]) for name, knob in self._knobs.items()}
        if self._projector is None:
            return Suggestion(selection, self._branch.parallel_configs[0], handle)
        projection = self._projector.project(values, selection["backend"])
        return Suggestion(selection, projection.config, handle, projection)

    def values(self, suggestion: Suggestion) -> dict[str, Any]:
        """Encode a suggestion, whoever made it, so that it decodes to the same deployment."""
        selection = suggestion.selection
        known: dict[str, Any] = {CONSTANT: "0"}
        if self._projector is not None:
            known |= self._projector.features(suggestion.parallel_config)
        known |= {name: float(selection[name]) for name in self._branch.float_ranges}
        known |= {name: knob.value(selection[name]) for name, knob in self._knobs.items()}
        return {parameter.name: known[parameter.name] for parameter in self.parameters}

    def _features(self) -> list[LatentParameter]:
        if self._projector is None:
            return []
        return [_feature(parameter) for parameter in self._projector.parameters if not parameter.constant]

    def _ranges(self) -> list[LatentParameter]:
        return [
            LatentParameter(name, "float", bounds=(low, high), default=(low + high) / 2)
            for name, (low, high) in self._branch.float_ranges.items()
        ]


def _feature(parameter: ParallelParameter) -> LatentParameter:
    if parameter.kind == "float":
        assert parameter.minimum is not None
        assert parameter.maximum is not None
        bounds = (parameter.minimum, parameter.maximum)
        return LatentParameter(parameter.name, "float", bounds=bounds, default=parameter.default)
    return LatentParameter(
        parameter.name,
        parameter.kind,
        values=parameter.values,
        default=parameter.default,
        log_scale=parameter.log_scale,
    )


def _distinct(choices: list[Any]) -> list[Any]:
    return list({choice_key(choice): choice for choice in reversed(choices)}.values())[::-1]
