"""Reading an input that may be written as JSON or as YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from aisimulate.config.json_text import read_json
from aisimulate.config.text_file import read_text
from aisimulate.config.yaml_file import load_yaml
from aisimulate.core.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def read_document(path: Path, name: str) -> object:
    """Read the value in a file: YAML when it is named so, else JSON.

    `name` stands for the file in messages. Raises `InputError`, one line that says what is wrong with it.
    """
    try:
        if path.suffix in (".yaml", ".yml"):
            return load_yaml(path)
        return read_json(read_text(path, name), name)
    except OSError as error:
        raise InputError(f"could not read {name}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise InputError(f"malformed YAML in {name}: {' '.join(str(error).split())}") from error
