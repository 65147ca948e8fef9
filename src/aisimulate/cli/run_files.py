"""Where the ledgers of searches are kept, and how a user names one."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from aisimulate.core.errors import InputError, nearest
from aisimulate.core.shown import cut

SUFFIX = ".sqlite"


def runs_folder() -> Path:
    """Return `$AISIMULATE_RUNS`, else `aisimulate/runs` in the user's folder for program state."""
    given = os.environ.get("AISIMULATE_RUNS")
    if given:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "aisimulate" / "runs"


def new_run_path() -> Path:
    """Choose the file of a new run in the runs folder, which is made if need be.

    Raises OSError when that fails, InputError when it is a file.
    """
    folder = _checked_folder()
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    names = (stamp, *(f"{stamp}-{number}" for number in range(2, 1000)))
    return next(path for path in (folder / f"{name}{SUFFIX}" for name in names) if not path.exists())


def all_runs() -> list[Path]:
    """List the runs in the runs folder, oldest first. Raises InputError when that is no folder.

    A run is as old as the last change of its file, since a user may name it anything (`--run`); ties go by
    name. Looking at a run changes nothing.
    """
    folder = _checked_folder()
    return sorted(folder.glob(f"*{SUFFIX}"), key=_age) if folder.is_dir() else []


def _age(path: Path) -> tuple[int, str]:
    try:
        return path.stat().st_mtime_ns, path.name
    except OSError:  # a link to nowhere, or deleted meanwhile
        return 0, path.name


def _checked_folder() -> Path:
    folder = runs_folder()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is not a directory")
    return folder


def find_run(name: str) -> Path:
    """Find a run by its path, or by its name in the runs folder; `last` is the one changed last.

    Raises:
        InputError: there is none; the nearest name is told.
    """
    if _is_file(name):
        return Path(name)
    runs = {path.name.removesuffix(SUFFIX): path for path in all_runs()}
    if name == "last" and runs:
        return list(runs.values())[-1]
    if name not in runs:
        raise InputError(f"there is no run {cut(name)!r} here or in {runs_folder()}{nearest(name, runs)}")
    return runs[name]


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # longer than a path may be
        return False
