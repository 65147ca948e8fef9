"""The `doctor` command: what this installation has, and whether it can work."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from aisimulate import __version__
from aisimulate.cli.exit_codes import DONE, FAILED
from aisimulate.cli.guarded import guarded
from aisimulate.cli.output import show
from aisimulate.cli.parser import OneLineParser
from aisimulate.cli.run_files import all_runs, runs_folder
from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.perf.data_slots import data_slots
from aisimulate.replay.placement_policies import GROUP as PLACEMENTS
from aisimulate.report.columns import aligned
from aisimulate.report.json_text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PROG = "aisimulate doctor"
_FORMAT = "aisimulate.doctor"
_BASE = ""  # where other requirements have their extra
_TOOLS = ("dev", "docs", "page-test")
_OLDEST, _NEWEST = (3, 11), (3, 13)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: `state` is ok, note (nothing is wrong) or problem."""

    state: str
    subject: str
    text: str


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 without problems, 1 with some, 2 bad input, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    return guarded(_PROG, lambda: _run(arguments.format))


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog=_PROG, description="Tell what this installation has, and whether it can work."
    )
    parser.add_argument("--format", choices=("table", "json"), default="table", help="default: %(default)s")
    return parser


def _run(form: str) -> int:
    found = [*_programs(), *_extras(), *_plug_ins(), *_runs(), *_data()]
    code = FAILED if any(finding.state == "problem" for finding in found) else DONE
    if form == "json":
        document = {"format": _FORMAT, "format_version": 1, "findings": [asdict(item) for item in found]}
        return show(_PROG, json_text(document), code)
    rows = [(item.state, item.subject, item.text) for item in found]
    return show(_PROG, "\n".join([*aligned(rows), ""]), code)


def _programs() -> Iterator[Finding]:
    version = sys.version_info[:2]
    state = "ok" if _OLDEST <= version <= _NEWEST else "problem"
    yield Finding(state, "python", f"{platform.python_version()} (3.11 to 3.13 are supported)")
    yield Finding("ok", "aisimulate", __version__)
    required = _required_packages().get(_BASE, ())
    if not required:
        yield Finding("note", "libraries", "not checked: aisimulate runs here without being installed")
    for name in required:
        yield _package(name)


def _package(name: str) -> Finding:
    try:
        return Finding("ok", name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding("problem", name, "is missing: install aisimulate again")


def _extras() -> Iterator[Finding]:
    """Tell of the optional libraries of every extra."""
    for extra, names in sorted(_required_packages().items()):
        if extra == _BASE:
            continue
        missing = [name for name in names if not _is_installed(name)]
        text = (
            "installed" if not missing else f"without {', '.join(missing)}: pip install 'aisimulate[{extra}]'"
        )
        yield Finding("note" if missing else "ok", f"extra {extra}", text)


def _required_packages() -> dict[str, list[str]]:
    """List the libraries by extra, as the package's own metadata has them; tests' tools are none."""
    found: dict[str, list[str]] = {}
    try:
        requirements = importlib.metadata.requires("aisimulate") or []
    except importlib.metadata.PackageNotFoundError:
        return found
    for requirement in requirements:
        package, _, marker = requirement.partition(";")
        extra = marker.partition("extra ==")[2].strip(" '\"")
        if extra not in _TOOLS:
            name = package.strip()
            for sign in "<>=!~[ (":
                name = name.partition(sign)[0]
            found.setdefault(extra, []).append(name)
    return found


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return find_spec(name.replace("-", "_")) is not None
    return True


def _plug_ins() -> Iterator[Finding]:
    """Tell of everything that other packages add to ours, by the groups of their entry points."""
    groups = {PLACEMENTS}
    groups |= {name for name in importlib.metadata.entry_points().groups if name.startswith("aisimulate.")}
    for group in sorted(groups):
        points = sorted(point.name for point in importlib.metadata.entry_points(group=group))
        yield Finding("ok", f"plug-ins {group}", ", ".join(points) or "none")


def _runs() -> Iterator[Finding]:
    folder = runs_folder()
    try:
        count = len(all_runs())
    except InputError as error:
        yield Finding("problem", "runs", str(error))
        return
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if os.access(place, os.W_OK):
        yield Finding("ok", "runs", f"{count} in {folder}")
    else:
        yield Finding("problem", "runs", f"{folder} cannot be written: set AISIMULATE_RUNS to another folder")


def _data() -> Iterator[Finding]:
    """Tell which engine versions have measurements on which GPUs."""
    try:
        slots = data_slots()
    except AISimulateError as error:
        yield Finding("problem", "data", str(error))
        return
    for system, backends in slots.items():
        texts = [
            f"{backend} {', '.join(f'{version} ({slot})' for slot, version in versions.items())}"
            for backend, versions in backends.items()
        ]
        yield Finding("ok" if texts else "note", f"data {system}", "; ".join(texts) or "none")
