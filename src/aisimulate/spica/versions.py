"""The programs that a result was made with."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from aisimulate import __version__


def program_versions() -> dict[str, str]:
    """Name this package and the one whose data it used, with their versions."""
    versions = {"aisimulate": __version__}
    with suppress(PackageNotFoundError):
        versions["aiconfigurator-core"] = version("aiconfigurator-core")
    return versions
