"""What can go wrong with AI Configurator, and the mapping of its own exceptions (spec 04 section 11).

A `TimingError` means that this one deployment cannot be priced: a search drops it and goes on.
An `InputError` means that the user asked for something that does not exist: a search stops.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError, TimingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.core.errors import AISimulateError


class AicDataGap(TimingError):
    """No measured data for an operation of this deployment."""


class AicUnsupportedDtype(TimingError):
    """The hardware has no arithmetic for a data type of this deployment."""


class ShapeNotViable(TimingError):
    """The model cannot be cut into this parallel shape."""


class NoKvBudget(TimingError):
    """Weights and activations leave no memory for the KV cache."""


class ModelNotAvailable(InputError):
    """The model's configuration is neither bundled nor in a folder, or cannot be used.

    `problem` is the text without `field`, which is where the name was given.
    """

    def __init__(self, problem: str, field: str = "AIC model") -> None:
        super().__init__(problem, field)
        self.problem = problem
        self.field = field

    def _text(self) -> str:
        return f"{self.field}: {self.problem}"


class UnknownSystem(InputError):
    """The hardware name is not one that AI Configurator knows."""


class UnknownBackendVersion(InputError):
    """The backend, or the version of it, has no queryable data on this hardware."""


# By class name, because a worker process that only predicts never imports the SDK's classes.
_BY_CLASS: dict[str, type[AISimulateError]] = {
    "MissingSystemFlopsError": AicUnsupportedDtype,
    "PerfDataNotAvailableError": AicDataGap,
    "InterpolationDataNotAvailableError": AicDataGap,
    "EmpiricalNotImplementedError": AicDataGap,
    "OpConversionError": AicDataGap,
}
_BY_TEXT: tuple[tuple[str, type[AISimulateError]], ...] = (
    ("no KV budget", NoKvBudget),
    ("Invalid quantized MoE configuration", ShapeNotViable),
    ("ep size cannot be larger", ShapeNotViable),
    ("should be divisible by", ShapeNotViable),
    ("Parallelism width mismatch", InputError),
    ("looks like an old-style raw version query", UnknownBackendVersion),
    ("no queryable versions defined", UnknownBackendVersion),
    ("incompatible memory fraction", InputError),
)
_INSTALL_PATH = re.compile(r"\S*/aiconfigurator_core/systems/")


def translate(error: BaseException, subject: str) -> AISimulateError:
    """Turn an exception of AI Configurator into one of ours, whose one-line text names `subject`."""
    text = f"{subject}: {clean(str(error) or type(error).__name__)}"
    return _kind(error)(text)


def clean(text: str) -> str:
    """Put a message on one line and cut the installation's folder out of it."""
    return " ".join(_INSTALL_PATH.sub("", text).split())


def _kind(error: BaseException) -> type[AISimulateError]:
    for cause in _chain(error):
        for ancestor in type(cause).__mro__:
            if ancestor.__name__ in _BY_CLASS:
                return _BY_CLASS[ancestor.__name__]
    text = " ".join(str(cause) for cause in _chain(error))
    return next((kind for part, kind in _BY_TEXT if part in text), TimingError)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
