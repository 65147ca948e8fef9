"""Writing a result to the place a user named, be it a new or old file, a link, a pipe or a device."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.core.console import mute
from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.report.scratch import open_scratch, sweep

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

_NEW_FILE_MODE = 0o644
PAGE_MARK = '<meta name="generator" content="aisimulate">'
"""Stands in every page that we write, so that one may take the place of another."""
_BEGINNING_BYTES = 4096


class WriteError(AISimulateError):
    """A result could not be written to the file the user named."""


def check_writable(path: Path, inputs: Iterable[Path] = (), option: str = "--output") -> None:
    """Raise InputError now if writing would surely fail later, or would destroy one of `inputs`.

    `option` is what the user named the file by.
    """
    try:
        status = _status(path)
        target = path.resolve()
    except OSError as error:
        raise InputError(f"{option} {path}: {error.strerror or error}") from error
    if not target.parent.is_dir():
        raise InputError(f"{option} {path}: {target.parent} is not a directory")
    if target.is_dir():
        raise InputError(f"{option} {path}: is a directory, expected a file")
    if status is not None and not os.access(path, os.W_OK):
        raise InputError(f"{option} {path}: is not writable")
    for source in inputs:
        _check_apart(f"{option} {path}", target, status, source)
    if _is_replaceable(status):
        try:
            handle, scratch = open_scratch(target)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"{option} {path}: cannot write in {target.parent}: {reason}") from error
        os.close(handle)
        scratch.unlink()


def _check_apart(what: str, target: Path, status: os.stat_result | None, source: Path) -> None:
    """Raise InputError if a target is an input, or lies in one; an input that is no file is none."""
    with suppress(OSError):
        if source.is_dir() and target.is_relative_to(source.resolve()):
            raise InputError(f"{what}: lies in the input folder {source}")
        if status is not None and source.exists() and os.path.samestat(status, source.stat()):
            raise InputError(f"{what}: would overwrite the input {source}")


def check_new(path: Path) -> None:
    """Raise InputError if `path` is a file already; what is no regular file may be written to at any time."""
    try:
        exists = path.is_file()
    except OSError as error:
        raise InputError(f"--output {path}: {error.strerror or error}") from error
    if exists:
        raise InputError(f"--output {path}: exists already (--overwrite replaces it)")


def check_page(path: Path, option: str = "--output") -> None:
    """Raise InputError if `path` is a file already and holds anything else than a page of ours."""
    try:
        is_other = path.is_file() and PAGE_MARK.encode() not in _beginning(path)
    except OSError as error:
        raise InputError(f"{option} {path}: {error.strerror or error}") from error
    if is_other:
        raise InputError(f"{option} {path}: exists already, and is no page of aisimulate; name another file")


def _beginning(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_BEGINNING_BYTES)


def write_file(path: Path, text: str, option: str = "--output") -> None:
    """Write `text` to `path`, as `write_lines` does."""
    write_lines(path, [text], option)


def write_lines(path: Path, lines: Iterable[str], option: str = "--output") -> None:
    """Write `lines` (each with its end) to `path`.

    A regular file is replaced in one step, so that no reader ever sees half of it; a link stays and its
    target is replaced. Anything else (a pipe, a device, this process's own stdout) is written to as it is; a
    reader that has gone saw what it wanted.

    Raises:
        WriteError: one line that names the file.
    """
    try:
        _write(path, lines)
    except OSError as error:
        raise WriteError(f"{option} {path}: {error.strerror or error}") from error


def _write(path: Path, lines: Iterable[str]) -> None:
    status = _status(path)
    if _is_replaceable(status) and _standard_stream(status) is None:
        mode = _NEW_FILE_MODE if status is None else stat.S_IMODE(status.st_mode)
        _replace(path.resolve(), lines, mode)
        return
    with suppress(BrokenPipeError):
        _pass_on(path, status, lines)


def _pass_on(path: Path, status: os.stat_result | None, lines: Iterable[str]) -> None:
    """Write to what is no regular file, or is one that this process writes to already."""
    stream = _standard_stream(status)
    if stream is None:
        with path.open("w", encoding="utf-8") as target:
            target.writelines(lines)
        return
    try:
        stream.writelines(lines)
        stream.flush()
    except BrokenPipeError:
        mute(stream)


def _status(path: Path) -> os.stat_result | None:
    """Look at what `path` leads to; None when there is nothing yet."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _is_replaceable(status: os.stat_result | None) -> bool:
    return status is None or stat.S_ISREG(status.st_mode)


def _standard_stream(status: os.stat_result | None) -> TextIO | None:
    """Find the stream of this process that already leads there, as /dev/stdout does."""
    for stream in (sys.stdout, sys.stderr):
        # A captured or closed stream has no file behind it.
        with suppress(OSError, ValueError, AttributeError):
            if status is not None and os.path.samestat(status, os.fstat(stream.fileno())):
                return stream
    return None


def _replace(path: Path, lines: Iterable[str], mode: int) -> None:
    sweep(path)
    handle, scratch = open_scratch(path)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.writelines(lines)
            stream.flush()
            scratch.chmod(mode)
            scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
