"""Reading a user's YAML file: safe tags only, one document, no key twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that refuses a repeated key, where YAML readers silently keep the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                identity = (key.tag, key.value)
                if identity in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} appears twice", key.start_mark
                    )
                seen.add(identity)
        return super().construct_mapping(node, deep=deep)


def load_yaml(path: Path) -> object:
    """Load the one document of a file. Raises OSError or yaml.YAMLError."""
    with path.open("rb") as stream:
        # Safe: the loader derives from SafeLoader.
        return yaml.load(stream, Loader=_UniqueKeyLoader)
