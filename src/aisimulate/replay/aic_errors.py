"""Saying where in the payload an AIC setting stands that the timing layer refuses."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.timing.aic.errors import ModelNotAvailable

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIELD = re.compile(r": AIC (\w+): ")


@contextmanager
def aic_settings_at(path: str) -> Iterator[None]:
    """Name the AIC settings of the rank at `path` in every `InputError` raised inside."""
    root = f"{path}.timing_model.config"
    try:
        yield
    except ModelNotAvailable as error:
        raise ModelNotAvailable(error.problem, f"{root}.model") from None
    except InputError as error:
        # The timing layer names a field as "AIC field: ...", knowing nothing of payloads.
        raise type(error)(_FIELD.sub(r".\1: ", f"{root}: {error}")) from None
