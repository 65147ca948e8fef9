"""Loading the libraries of the optional extra, without what they say and warn."""

from __future__ import annotations

import importlib
import logging
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aisimulate.core.blas import use_one_blas_thread
from aisimulate.core.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator


def load(family: str, *modules: str) -> list[Any]:
    """Import `modules`. Raises UnsupportedError when one is missing or cannot be imported."""
    use_one_blas_thread()
    try:
        with quiet():
            return [importlib.import_module(module) for module in modules]
    except ImportError as error:
        raise UnsupportedError(
            f"load predictor {family!r} needs the optional extra 'forecast' "
            f"(pip install 'aisimulate[forecast]'): {error}"
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what the libraries log and warn away from the user; both are as before afterwards."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.CRITICAL))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
