"""Reading a search: from its file, or from what such a file holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from pydantic import ValidationError

from aisimulate.config.messages import one_line
from aisimulate.config.yaml_file import load_yaml
from aisimulate.core.errors import InputError
from aisimulate.spica.config import SmartSearchConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def search_of(document: object) -> SmartSearchConfig:
    """Validate what a search file holds. Raises InputError with one line that names the field."""
    try:
        return SmartSearchConfig.model_validate(document)
    except ValidationError as error:
        raise InputError(one_line(error, "", SmartSearchConfig)) from error


def read_search(path: Path, change: Callable[[object], object] | None = None) -> SmartSearchConfig:
    """Read and validate a search file; `change` may replace what it holds in between.

    Raises:
        InputError: one line that names the file and what is wrong with it.
    """
    try:
        document = load_yaml(path)
        return SmartSearchConfig.from_document(document if change is None else change(document), path.parent)
    except OSError as error:
        raise InputError(f"could not read config {str(path)!r}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise InputError(f"malformed YAML in {str(path)!r}: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise InputError(f"invalid config {str(path)!r}: {one_line(error, '', SmartSearchConfig)}") from error
