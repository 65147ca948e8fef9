"""Reading a payload's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aisimulate.config.document_file import read_document
from aisimulate.core.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def read_payload(path: Path) -> Mapping[str, Any]:
    """Read a payload: YAML when the file is named so, else JSON.

    Raises:
        InputError: one line that names the file and what is wrong with it.
    """
    name = f"payload {str(path)!r}"
    value = read_document(path, name)
    if not isinstance(value, Mapping):
        raise InputError(f"{name}: expected an object with spec and traffic")
    return value
