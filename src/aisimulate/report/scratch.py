"""Files under construction, beside the result that each is to become in one step.

A writer holds a lock on its file for as long as it lives. So what a killed one left behind can be told from
the file of a writer at work, and the next write to the same place sweeps it up.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # a system without such locks: nothing is swept up there
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator

_RANDOM = r"\w+"
_ENDING = ".tmp"


def open_scratch(path: Path) -> tuple[int, Path]:
    """Open a new file beside `path`; it is locked until the handle is closed."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=_beginning(path), suffix=_ENDING)
        if fcntl is None:
            return handle, Path(name)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.lexists(name):
            return handle, Path(name)
        os.close(handle)  # it was swept up before it was locked


def sweep(path: Path) -> None:
    """Remove the files that dead writers of `path` left beside it; what cannot be removed stays."""
    with suppress(OSError):
        for name in _leftovers(path):
            _remove_unlocked(name)


def _beginning(path: Path) -> str:
    return f".{path.name[:40]}."


def _leftovers(path: Path) -> Iterator[Path]:
    pattern = re.compile(re.escape(_beginning(path)) + _RANDOM + re.escape(_ENDING))
    with os.scandir(path.parent) as entries:
        for entry in entries:
            if pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _remove_unlocked(name: Path) -> None:
    if fcntl is None:
        return
    with suppress(OSError), name.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        name.unlink()
