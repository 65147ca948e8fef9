"""Which measurement tables an engine reads, where they come from, and over what they were measured."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisimulate.timing.aic.names import resolve_model
from aisimulate.timing.aic.quant import model_config, resolve_modes
from aisimulate.timing.aic.sdk import sdk_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.timing.aic.key import EngineKey

# Kind of operation in a compiled engine -> table. Kinds without one (copies, norms, links) are formulas.
_TABLES = {
    "Gemm": "gemm",
    "ContextAttention": "context_attention",
    "GenerationAttention": "generation_attention",
    "ContextMla": "context_mla",
    "GenerationMla": "generation_mla",
    "MlaBmm": "mla_bmm",
    "MlaModuleContext": "mla_context_module",
    "MlaModuleGeneration": "mla_generation_module",
    "DsaContext": "dsa_context_module",
    "DsaGeneration": "dsa_generation_module",
    "MsaContext": "msa_context_module",
    "MsaGeneration": "msa_generation_module",
    "Moe": "moe",
    "CustomAllReduce": "custom_allreduce",
    "TrtllmAlltoall": "trtllm_alltoall",
    "Gdn": "gdn",
    "Kda": "kda",
    "Mamba2": "mamba2",
    "Mhc": "mhc_module",
}
# Tables whose name depends on a setting of the operation, or whose operation chooses among several.
_DSV4 = {"Dsv4Context": "context", "Dsv4Generation": "generation"}
_PREFILL_LENGTHS = ("context_attention", "context_mla", "mla_context_module", "dsa_context_module")
_DECODE_LENGTHS = ("generation_attention", "generation_mla", "mla_generation_module", "dsa_generation_module")
_TOKEN_COLUMNS = {"gemm": "m", "moe": "num_tokens"}


@dataclass(frozen=True, slots=True)
class TableSource:
    """One file that serves a table.

    `origin` says how it relates to the engine: `own` (this backend and version), `fallback` (another
    version of it) or `transferred` (another backend's, or declared reusable); `framework` and `version` are
    those that it was measured with.
    """

    table: str
    framework: str
    version: str
    origin: str
    path: str


_ORIGINS = {"primary": "own", "fallback": "fallback"}


@lru_cache(maxsize=256)
def table_sources(key: EngineKey) -> tuple[TableSource, ...]:
    """List the files behind each table that the engine reads, nearest first, in the engine's order.

    Files after the first fill what the ones before them leave open. Raises like `compile_engine_spec`.
    """
    tables = tuple(dict.fromkeys(table for table in map(_table_of, _operations(key)) if table))
    with sdk_call(str(key)):
        from aiconfigurator_core.sdk.perf_database import get_database  # noqa: PLC0415 - start-up time

        database = get_database(key.system, key.backend, key.backend_version, systems_paths=key.systems_path)
        if database is None:
            return ()
        database._materialize_source_reports()
        reports: dict[str, list[dict[str, Any]]] = database.data_provenance
        return tuple(
            _source(table, record)
            for table in tables
            for record in reports.get(f"{table}_perf.parquet", ())
            if record["exists"]
        )


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a table: the sorted values that were measured, over all kernel shapes in the table."""

    table: str
    name: str
    values: tuple[int, ...]


@lru_cache(maxsize=256)
def prefill_axes(key: EngineKey) -> tuple[Axis, ...]:
    """The axes that a prefill forward moves along: tokens, batch and length."""
    return tuple(_axes(key, _PREFILL_LENGTHS))


@lru_cache(maxsize=256)
def decode_axes(key: EngineKey) -> tuple[Axis, ...]:
    """The axes that a decode forward moves along: tokens, batch and length."""
    return tuple(_axes(key, _DECODE_LENGTHS))


def _axes(key: EngineKey, length_tables: tuple[str, ...]) -> Iterator[Axis]:
    files: dict[str, tuple[str, ...]] = {}
    for source in table_sources(key):
        files[source.table] = (*files.get(source.table, ()), source.path)
    for table, paths in files.items():
        if table in _TOKEN_COLUMNS:
            yield Axis(table, "tokens", _values(paths, _TOKEN_COLUMNS[table]))
        if table in length_tables:
            yield Axis(table, "batch", _values(paths, "batch_size"))
            yield Axis(table, "length", _values(paths, "isl", "step"))


@lru_cache(maxsize=256)
def _values(paths: tuple[str, ...], *columns: str) -> tuple[int, ...]:
    """Distinct sums of the columns over all rows of the files."""
    import numpy as np  # noqa: PLC0415 - costs start-up time
    from pyarrow import parquet  # noqa: PLC0415 - costs start-up time

    found: set[int] = set()
    for path in paths:
        rows = parquet.read_table(path, columns=list(columns))
        found.update(np.unique(sum(rows.column(name).to_numpy() for name in columns)).tolist())
    return tuple(sorted(int(value) for value in found))


def _operations(key: EngineKey) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give kind and settings of every operation of the engine, those inside blocks included."""
    modes, model = resolve_modes(key), resolve_model(key.model, key.allow_download)
    with sdk_call(str(key)):
        from aiconfigurator_core.sdk.engine import build_ops_json  # noqa: PLC0415 - costs start-up time
        from aiconfigurator_core.sdk.models import get_model  # noqa: PLC0415 - costs start-up time

        built = get_model(model, model_config(key, modes.arguments), key.backend)
        phases = [json.loads(build_ops_json(ops)) for ops in (built.context_ops, built.generation_ops)]
    yield from _tagged(phases)


def _tagged(node: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Walk a tree of `{Kind: {settings}}` objects."""
    if isinstance(node, list):
        for item in node:
            yield from _tagged(item)
    elif isinstance(node, dict):
        for name, value in node.items():
            if isinstance(value, dict) and name[:1].isupper():
                yield name, value
            yield from _tagged(value)


def _table_of(operation: tuple[str, dict[str, Any]]) -> str | None:
    kind, settings = operation
    if kind == "CustomAllReduce" and settings.get("tp_size", 1) == 1:
        return None
    if kind == "MoeDispatch":
        return _TABLES.get(str(settings.get("flavor")))
    if kind in _DSV4:
        return f"dsv4_{str(settings['attn_kind']).lower()}_{_DSV4[kind]}_module"
    return _TABLES.get(kind)


def _source(table: str, record: dict[str, Any]) -> TableSource:
    # <family>/<framework>/<version>/<file>
    path = Path(record["path"])
    framework = path.parent.parent.name
    origin = _ORIGINS.get(record["channel"], "transferred")
    return TableSource(table, framework, str(record["version"]), origin, os.fspath(path))
