"""Answers of the performance model: one JSON document, or plain tables."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisimulate.report.columns import aligned
from aisimulate.report.confidence import confidence_document
from aisimulate.report.numbers import number_text, share_text
from aisimulate.spica.versions import program_versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aisimulate.perf.model import PerfModel
    from aisimulate.perf.questions import Answers
    from aisimulate.perf.results import Capacity, Latency, MixedLatency

FORMAT = "aisimulate.perf"
FORMAT_VERSION = 1

_GIB = 1 << 30
_DATA_FOLDERS = 4  # <family>/<framework>/<version>/<file>


def perf_json(model: PerfModel, answers: Answers, *, operations: bool) -> str:
    """Write the answers as JSON; `operations` adds those of every forward. Same input, same bytes."""
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": program_versions(),
        "engine": model.config.model_dump(mode="json", exclude_none=True),
        "provenance": _provenance(model),
        "confidence": confidence_document(answers.confidence),
        "prefill": [_prefill(latency, operations) for latency in answers.prefill],
        "decode": [_decode(latency, operations) for latency in answers.decode],
        "mixed": [_mixed(mixed) for mixed in answers.mixed],
        "capacity": None if answers.capacity is None else _capacity(answers.capacity),
        "notes": list(model.notes),
        "problems": answers.problems,
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _provenance(model: PerfModel) -> dict[str, Any]:
    document = asdict(model.provenance())
    for table in document["tables"]:
        table["path"] = "/".join(Path(table["path"]).parts[-_DATA_FOLDERS:])
    return document


def _prefill(latency: Latency, operations: bool) -> dict[str, Any]:
    point = {"batch": latency.batch, "isl": latency.length_tokens, "prefix": latency.prefix_tokens}
    return {**point, **_timed(latency, operations)}


def _decode(latency: Latency, operations: bool) -> dict[str, Any]:
    return {"batch": latency.batch, "context": latency.length_tokens, **_timed(latency, operations)}


def _timed(latency: Latency, operations: bool) -> dict[str, Any]:
    listed = {"operations": [asdict(operation) for operation in latency.operations]} if operations else {}
    return {"latency_ms": latency.latency_ms, "data": asdict(latency.data), **listed}


def _mixed(mixed: MixedLatency) -> dict[str, Any]:
    return {
        "prefill_batch": mixed.prefill.batch,
        "isl": mixed.prefill.length_tokens,
        "prefix": mixed.prefill.prefix_tokens,
        "batch": mixed.decode.batch,
        "context": mixed.decode.length_tokens,
        "fused_ms": mixed.fused_ms,
        "additive_ms": mixed.additive_ms,
    }


def _capacity(capacity: Capacity) -> dict[str, Any]:
    return {
        **asdict(capacity),
        "worker_tokens": capacity.worker_tokens,
        "unused_bytes": capacity.unused_bytes,
    }


def perf_text(model: PerfModel, answers: Answers, *, operations: bool) -> str:
    """Lay the answers out as plain tables, for a terminal or a pipe alike."""
    parts = [_engine_lines(model)]
    for title, latencies in (("prefill", answers.prefill), ("decode", answers.decode)):
        if latencies:
            parts.append([title, *_table(_latency_rows(latencies))])
    if answers.mixed:
        parts.append(["mixed pass", *_table(_mixed_rows(answers.mixed))])
    if operations:
        parts += [_operation_lines(latency) for latency in (*answers.prefill, *answers.decode)]
    if answers.capacity is not None:
        parts.append(_capacity_lines(answers.capacity))
    parts.append([*_data_lines(model), *_confidence_lines(answers)])
    notes = [*model.notes, *model.provenance().advisories, *_beyond(answers)]
    parts.append([f"note: {note}" for note in dict.fromkeys(notes)])
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _engine_lines(model: PerfModel) -> list[str]:
    config, provenance = model.config, model.provenance()
    sizes = " ".join(
        f"{name}={value}"
        for name in ("tp", "pp", "attention_dp", "moe_tp_size", "moe_ep_size", "nextn")
        if (value := getattr(config, name)) not in (None, 0)
    )
    slot = f" ({provenance.slot})" if provenance.slot else ""
    dtypes = " ".join(f"{name}={dtype}" for name, dtype in provenance.dtypes.items())
    return [
        f"{config.model} on {config.system} with {config.backend} {provenance.backend_version}{slot}",
        f"{sizes}; batch sizes are per attention-DP rank",
        dtypes,
    ]


def _latency_rows(latencies: Sequence[Latency]) -> list[list[str]]:
    prefill = latencies[0].phase == "prefill"
    lengths = ["isl", "prefix"] if prefill else ["context"]
    rows = [["batch", *lengths, "ms", "data", "formula"]]
    for latency in latencies:
        prefix = [f"{latency.prefix_tokens:,}"] if prefill else []
        point = [f"{latency.batch:,}", f"{latency.length_tokens:,}", *prefix]
        rows.append([*point, number_text(latency.latency_ms), *_data_cells(latency)])
    return rows


def _data_cells(latency: Latency) -> list[str]:
    transfer = f" ({latency.data.transfer})" if latency.data.transfer else ""
    return [latency.data.origin + transfer, share_text(latency.data.formula_share)]


def _mixed_rows(answers: Sequence[MixedLatency]) -> list[list[str]]:
    rows = [["prompts", "isl", "prefix", "batch", "context", "fused ms", "additive ms"]]
    for mixed in answers:
        prefill, decode = mixed.prefill, mixed.decode
        sizes = (prefill.batch, prefill.length_tokens, prefill.prefix_tokens)
        counts = [f"{size:,}" for size in (*sizes, decode.batch, decode.length_tokens)]
        rows.append([*counts, number_text(mixed.fused_ms), number_text(mixed.additive_ms)])
    return rows


def _operation_lines(latency: Latency) -> list[str]:
    rows = [["operation", "ms", "source"]]
    rows += [[item.name, number_text(item.ms), item.source] for item in latency.operations]
    prefix = f", {latency.prefix_tokens:,} cached" if latency.prefix_tokens else ""
    return [f"{latency.phase} of {latency.batch:,} x {latency.length_tokens:,} tokens{prefix}", *_table(rows)]


def _capacity_lines(capacity: Capacity) -> list[str]:
    kind = "of all memory" if capacity.memory_fraction_kind == "of_total" else "of the memory left"
    rows = [["memory of a GPU", "GiB"]]
    for name in ("weights", "activations", "runtime", "communication", "kv", "unused", "capacity"):
        rows.append([name, f"{getattr(capacity, f'{name}_bytes') / _GIB:,.1f}"])
    ranks = f", {capacity.worker_tokens:,} on {capacity.ranks} ranks" if capacity.ranks > 1 else ""
    return [
        f"KV capacity of a rank: {capacity.tokens:,} tokens = {capacity.blocks:,} blocks of "
        f"{capacity.block_size}{ranks}",
        f"({capacity.kv_bytes_per_token:,} bytes a token on each GPU; fraction {capacity.memory_fraction:g} "
        f"{kind}; {capacity.max_num_batched_tokens:,} tokens a pass)",
        *_table(rows),
    ]


def _data_lines(model: PerfModel) -> list[str]:
    provenance = model.provenance()
    slots = ", ".join(f"{alias} = {literal}" for alias, literal in provenance.slots.items())
    rows = [["table", "measured with", "origin"]]
    rows += [[table.table, f"{table.framework} {table.version}", table.origin] for table in provenance.tables]
    return [f"data: version {provenance.backend_version} of slots {slots}", *_table(rows)]


def _confidence_lines(answers: Answers) -> list[str]:
    found = answers.confidence
    return (
        [] if found is None else ["", f"confidence: {found.grade}", *(f"  {text}" for text in found.reasons)]
    )


def _beyond(answers: Answers) -> Iterator[str]:
    for latency in (*answers.prefill, *answers.decode):
        yield from (f"extrapolated: {reason}" for reason in latency.data.beyond)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align columns: numbers to the right, words to the left. The first row has the titles."""
    columns = enumerate(zip(*rows, strict=True))
    numbers = {place for place, cells in columns if cells[-1][:1].isdigit() and "." not in cells[0]}
    return [f"  {line}" for line in aligned(rows, to_right=numbers)]
