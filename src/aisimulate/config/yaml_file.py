"""Reading a user's YAML file: one document of limited size, plain types only, keys that are names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import yaml
from yaml.constructor import ConstructorError

from aisimulate.config.yaml_scalars import PREFIX, RESOLVERS, construct, construct_text
from aisimulate.core.shown import cut

if TYPE_CHECKING:
    from pathlib import Path

MAX_NODES = 100_000
"""Most values of a document, everything that an alias repeats counted again."""

MAX_DEPTH = 100
"""Deepest nesting of a document, aliases followed."""

_MERGE = f"{PREFIX}merge"


class _Loader(yaml.SafeLoader):
    """A safe loader that measures the document while it is composed, before anything is built from it."""

    # Nothing is inherited: no sets, no dates, no binaries.
    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        **dict.fromkeys((PREFIX + name for name in ("null", "bool", "int", "float")), construct),
        PREFIX + "str": construct_text,
        PREFIX + "seq": yaml.SafeLoader.construct_yaml_seq,
        PREFIX + "map": yaml.SafeLoader.construct_yaml_map,
        None: lambda _, node: _refuse_tag(node),
    }

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - as PyYAML takes it
        super().__init__(stream)
        self._depth = 0
        self._sizes: dict[yaml.Node, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one value; refuse a document that is too deep, too large, or contains itself."""
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _refusal(f"nested more than {MAX_DEPTH} deep", event)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is None or node in self._sizes:
            return node
        if isinstance(event, yaml.AliasEvent):
            raise _refusal("an alias stands inside what it repeats", event)
        self._sizes[node] = self._measure(node)
        return node

    def _measure(self, node: yaml.Node) -> tuple[int, int]:
        """Count the values in a node whose parts are counted, and its levels."""
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
            parts = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            parts = node.value
        nodes = 1 + sum(self._sizes[part][0] for part in parts)
        depth = 1 + max((self._sizes[part][1] for part in parts), default=0)
        if max(nodes, len(self._sizes)) > MAX_NODES:
            raise _refusal(f"more than {MAX_NODES} values, aliases counted", node)
        if depth > MAX_DEPTH:
            raise _refusal(f"nested more than {MAX_DEPTH} deep, aliases followed", node)
        return nodes, depth

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Resolve `<<`: a mapping's own keys win over merged ones, and an earlier source over a later one.

        PyYAML's own way depends on which equal texts happen to be one object.
        """
        pairs = [pair for pair in node.value if pair[0].tag != _MERGE]
        names = {key.value for key, _ in pairs}
        for key, value in node.value:
            for source in _merged(value) if key.tag == _MERGE else ():
                self.flatten_mapping(source)
                for pair in source.value:
                    if pair[0].value not in names:
                        names.add(pair[0].value)
                        pairs.append(pair)
        node.value = pairs


# Nor YAML 1.1's readings of plain values.
_Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _firsts in RESOLVERS:
    _Loader.add_implicit_resolver(PREFIX + _name, _pattern, _firsts)


def load_yaml(path: Path) -> object:
    """Load the one document of a file, read as YAML 1.2 does. Raises OSError or yaml.YAMLError."""
    with path.open("rb") as stream:
        # Safe: the loader derives from SafeLoader.
        return yaml.load(stream, Loader=_Loader)


def read_yaml_text(text: str) -> object:
    """Read the one document of a text in the same way. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_Loader)  # safe, as above


def _refusal(problem: str, at: Any) -> ConstructorError:  # noqa: ANN401 - an event or a node
    return ConstructorError(None, None, problem, at.start_mark)


def _refuse_tag(node: yaml.Node) -> NoReturn:
    raise _refusal(f"the tag {cut(node.tag.replace(PREFIX, '!!'))} is not supported", node)


def _merged(value: yaml.Node) -> list[yaml.MappingNode]:
    sources: list[yaml.MappingNode] = []
    for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
        if not isinstance(source, yaml.MappingNode):
            raise _refusal("<< takes a mapping or a list of mappings", source)
        sources.append(source)
    return sources


def _check_keys(node: yaml.MappingNode) -> None:
    """Refuse a key that is no text, and one given twice, where YAML readers silently keep the last."""
    seen: set[str] = set()
    for key, _ in node.value:
        if key.tag == _MERGE:
            continue
        _check_name(key)
        if key.value in seen:
            raise _refusal(f"the key {cut(key.value)!r} appears twice", key)
        seen.add(key.value)


def _check_name(key: yaml.Node) -> None:
    if not isinstance(key, yaml.ScalarNode):
        raise _refusal("a key must be a name, not a list or mapping", key)
    if key.tag != f"{PREFIX}str":
        kind = cut(key.tag.removeprefix(PREFIX))
        problem = f"the key {cut(key.value)!r} is read as {kind}, not as a name: put it in quotes"
        raise _refusal(problem, key)
