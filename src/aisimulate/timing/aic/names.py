"""Model names: bundled, in a local folder, or (only when asked) downloaded.

A name is looked up among the bundled models first. A local folder of the same relative name does not
shadow it; write the folder as a path that starts with `.`, `~` or `/` to mean the folder.
"""

from __future__ import annotations

import os
from contextlib import chdir
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from aisimulate.core.errors import nearest
from aisimulate.core.shown import show_path
from aisimulate.timing.aic.config_file import config_problem, explain
from aisimulate.timing.aic.errors import ModelNotAvailable, clean
from aisimulate.timing.aic.sdk import sdk_call

# Names of other models are alike too; only a slip of the pen deserves a suggestion.
_LIKENESS = 0.9


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a checkpoint's configuration says. `nextn` is its number of built-in draft layers."""

    name: str
    architecture: str
    layers: int
    context_tokens: int
    is_moe: bool
    num_experts: int
    num_heads: int
    num_kv_heads: int
    hidden_size: int
    nextn: int


@lru_cache(maxsize=1)
def bundled_models() -> tuple[str, ...]:
    """Names whose configuration ships with AI Configurator, sorted."""
    from aiconfigurator_core.sdk.common import DefaultHFModels  # noqa: PLC0415 - costs start-up time

    return tuple(sorted(DefaultHFModels))


def resolve_model(name: str, allow_download: bool = False) -> str:
    """Give the string under which the SDK finds the model's configuration.

    Raises `ModelNotAvailable` for a blank name, and when the model is neither bundled nor a folder with a
    `config.json`, unless `allow_download` lets the SDK fetch it over the network.
    """
    if not name.strip():
        raise ModelNotAvailable(f"{show_path(name)} must not be blank")
    if name.startswith((".", "~")) or Path(name).is_absolute():
        return _local(name)
    if name in bundled_models():
        return _bundled(name)
    if _is_folder(name):
        return _local(name)
    if allow_download:
        _config(name)
        return name
    raise ModelNotAvailable(
        f"{show_path(name)} is not bundled, and there is no such folder; give a folder that holds the "
        "model's config.json, or set allow_model_download: true to fetch that file from "
        f"Hugging Face{_hint(name)}"
    )


def model_folder(name: str) -> str | None:
    """Give the absolute path of a model that is named as a folder; None for a bundled or a hub's one."""
    is_path = name.startswith((".", "~")) or Path(name).is_absolute()
    if not is_path and (name in bundled_models() or not _is_folder(name)):
        return None
    return os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111 - links keep their names


@lru_cache(maxsize=128)
def model_facts(name: str, allow_download: bool = False) -> ModelFacts:
    """Read a model's configuration. Raises like `resolve_model`, or `ModelNotAvailable` if unreadable."""
    path = resolve_model(name, allow_download)
    with sdk_call(f"AIC model {name}"):
        from aiconfigurator_core.sdk.config_builders import resolve_nextn_auto  # noqa: PLC0415 - start-up time
        from aiconfigurator_core.sdk.models import check_is_moe  # noqa: PLC0415 - start-up time

        info = _config(path)
        return ModelFacts(
            name=name,
            architecture=str(info["architecture"]),
            layers=int(info["layers"]),
            context_tokens=int(info["context"]),
            is_moe=bool(check_is_moe(path)),
            num_experts=int(info["num_experts"] or 0),
            num_heads=int(info["n"]),
            num_kv_heads=int(info["n_kv"]),
            hidden_size=int(info["hidden_size"]),
            nextn=int(resolve_nextn_auto(path)),
        )


def _hint(name: str) -> str:
    """Suggest the bundled model that `name` misspells, or names without its owner or in other letters."""
    known = bundled_models()
    short = [full for full in known if name.lower() in (full.lower(), full.lower().split("/")[-1])]
    return nearest(name, short, cutoff=0.0) if short else nearest(name, known, cutoff=_LIKENESS)


def _local(name: str) -> str:
    # Kept as written (`Path` would drop a leading "./", which tells a folder from a bundled name).
    folder = os.path.expanduser(name)  # noqa: PTH111
    if not (_is_folder(folder) and (Path(folder) / "config.json").is_file()):
        raise ModelNotAvailable(f"{show_path(name)} is not a folder that holds a config.json")
    problem = config_problem(Path(folder) / "config.json")
    if problem:
        raise ModelNotAvailable(f"{show_path(name)}: unusable config.json: {problem}")
    _config(folder)
    return folder


def _bundled(name: str) -> str:
    """Make the SDK use the bundled configuration even where a folder of that name stands in the way.

    It tests for a folder first, but keeps what it read; so read once from a place without such a folder.
    """
    if _is_folder(name):
        import aiconfigurator_core  # noqa: PLC0415 - costs start-up time

        with chdir(Path(aiconfigurator_core.__file__).parent):
            _config(name)
    return name


def _is_folder(name: str) -> bool:
    # Unlike `Path.is_dir`, false also for a name that no folder can have.
    return os.path.isdir(name)  # noqa: PTH112


def _config(path: str) -> dict[str, Any]:
    """Read a configuration through the SDK, which keeps it. Raises `ModelNotAvailable`."""
    from aiconfigurator_core.sdk.utils import (  # noqa: PLC0415 - costs start-up time
        HuggingFaceDownloadError,
        get_model_config_from_model_path,
    )

    with sdk_call(f"AIC model {path}"):
        try:
            config: dict[str, Any] = get_model_config_from_model_path(path)
        except HuggingFaceDownloadError as error:
            raise ModelNotAvailable(
                f"{show_path(path)} could not be downloaded ({clean(str(error.__cause__ or error))}); "
                "give the folder of its config.json instead"
            ) from None
        except Exception as error:
            problem = f"unusable config.json: {clean(explain(error))}"
            raise ModelNotAvailable(f"{show_path(path)}: {problem}") from None
    return config
