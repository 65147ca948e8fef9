"""What must not leave a machine with a page: where its files lie, and what looks like a secret."""

from __future__ import annotations

import re
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

# An absolute or home path: its folders, and the last name. A name with one slash (acme/model) is none.
_PATH = re.compile(r"(?<![\w.:/-])(?:~|[A-Za-z]:)?(?:[/\\][\w.@+~-]+)+[/\\]([\w.@+~-]+)")
_SECRET = re.compile(r"\b(?:hf|sk|ghp|github_pat|nvapi|xox[abp])[-_][A-Za-z0-9_-]{8,}")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")


class Scrubber:
    """Cuts folders off paths and hides secrets. `known_paths` may hold blanks, which no pattern finds."""

    def __init__(self, known_paths: Iterable[str | None] = ()) -> None:
        given = {path: _name(path) for path in known_paths if path is not None}
        self._known = [(path, given[path]) for path in sorted(given, key=len, reverse=True) if given[path]]

    def text(self, text: str) -> str:
        """Clean one text."""
        for path, name in self._known:
            text = text.replace(path, name)
        text = _CREDENTIALS.sub("***@", text)
        return _SECRET.sub("***", _PATH.sub(r"\1", text))

    def value(self, value: Any) -> Any:  # noqa: ANN401 - anything JSON holds
        """Clean every text in a value, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(name)): self.value(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value


def is_path(name: str) -> bool:
    """Whether a name of a model or trace is a place on a disk; a hub's `acme/model` is none."""
    return name.startswith(("/", "~", "./", "../")) or name.count("/") > 1 or "\\" in name


def _name(path: str) -> str:
    return PureWindowsPath(path).name if "\\" in path else Path(path).name
