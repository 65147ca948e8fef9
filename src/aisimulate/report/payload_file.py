"""Reading a payload's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import yaml

from aisimulate.config.json_text import read_json
from aisimulate.config.text_file import read_text
from aisimulate.core.errors import InputError
from aisimulate.spica.yaml_file import load_yaml

if TYPE_CHECKING:
    from pathlib import Path


def read_payload(path: Path) -> Mapping[str, Any]:
    """Read a payload: YAML when the file is named so, else JSON.

    Raises:
        InputError: one line that names the file and what is wrong with it.
    """
    name = f"payload {str(path)!r}"
    try:
        if path.suffix in (".yaml", ".yml"):
            value = load_yaml(path)
        else:
            value = read_json(read_text(path, name), name)
    except OSError as error:
        raise InputError(f"could not read {name}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise InputError(f"malformed YAML in {name}: {' '.join(str(error).split())}") from error
    if not isinstance(value, Mapping):
        raise InputError(f"{name}: expected an object with spec and traffic")
    return value
