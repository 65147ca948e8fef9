"""The files of a Weka corpus: one, or all of a folder (spec 02 section 2.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from aisimulate.core.errors import InputError
from aisimulate.core.shown import MAX_PATH_CHARS, cut, show_path
from aisimulate.workload.digest import blake3_hex
from aisimulate.workload.jsonl import Row
from aisimulate.workload.lines import BOM, relative_hint
from aisimulate.workload.problems import wrong_row
from aisimulate.workload.weka_records import read_play

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aisimulate.workload.weka_records import WekaPlay

_ENDINGS = (".json", ".jsonl")
_RAW_DOMAIN = b"aisimulate-weka-corpus-v1\0"
_MEANING_DOMAIN = b"aisimulate-weka-corpus-semantics-v2\0"


class CorpusFile(NamedTuple):
    """A file, and its name within the corpus."""

    name: str
    data: bytes


def read_corpus(path: Path) -> tuple[list[CorpusFile], list[WekaPlay]]:
    """Read all plays: a `.json` file has one, a `.jsonl` file one per line; files are ordered by name.

    Raises InputError naming file, line, field, value and rule.
    """
    files: list[CorpusFile] = []
    plays: list[WekaPlay] = []
    for name, file in sorted(_names(path)):
        data = _read(file)
        files.append(CorpusFile(name, data))
        for number, text, source in _objects(file, name, data):
            try:
                plays.append(read_play(Row(file, number, _parse(file, number, text)), source))
            except InputError as error:
                wrong_row(error)
    if not files:
        raise InputError(f"{path}: the folder has no .json or .jsonl files")
    return files, plays


def corpus_digest(files: list[CorpusFile], basis: str) -> str:
    """Identify the files and the basis of their nested times; the same value as the reference's."""
    raw = _RAW_DOMAIN
    raw += b"".join(_counted(name.encode()) + _size(len(data)) + data for name, data in files)
    return blake3_hex(_MEANING_DOMAIN + _counted(blake3_hex(raw).encode()) + _counted(basis.encode()))


def _counted(text: bytes) -> bytes:
    return _size(len(text)) + text


def _size(number: int) -> bytes:
    return number.to_bytes(8, "little")


def _names(path: Path) -> Iterator[tuple[str, Path]]:
    """Find the files, each with its name in the corpus."""
    if path.is_symlink():
        raise InputError(f"{path}: a Weka corpus must not hold symbolic links")
    if not path.is_dir():
        if path.suffix.lower() not in _ENDINGS:
            raise InputError(f"{path}: a Weka trace must be a .json or .jsonl file, or a folder of them")
        yield path.name, path
        return
    for entry in path.rglob("*"):
        if entry.is_symlink():
            raise InputError(f"{entry}: a Weka corpus must not hold symbolic links")
        if entry.is_file() and entry.suffix.lower() in _ENDINGS:
            yield entry.relative_to(path).as_posix(), entry


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{cut(str(path), MAX_PATH_CHARS)}: no such file{relative_hint(path)}") from None
    except (OSError, ValueError) as error:
        detail = getattr(error, "strerror", None) or error
        raise InputError(f"{show_path(path)}: cannot be read: {detail}") from None


def _objects(path: Path, name: str, data: bytes) -> Iterator[tuple[int, bytes, str]]:
    """Yield line and text of each trace object, and the name that tells it from all others."""
    data = data.removeprefix(BOM)
    if path.suffix.lower() == ".json":
        yield 1, data, name
        return
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    if not lines:
        raise InputError(f"{path}: the file contains no requests")
    for index, (number, line) in enumerate(lines):
        yield number, line, f"{name}#{index:06}"


def _parse(path: Path, number: int, text: bytes) -> Any:  # noqa: ANN401 - whatever JSON holds
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        place = f"{path}:{number + error.lineno - 1}"
        raise InputError(f"{place}: not JSON: {error.msg} (column {error.colno})") from None
