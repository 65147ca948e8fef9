"""What a search must know about its traffic before it starts; what no replay could serve is refused here."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.core.shown import show_path
from aisimulate.replay.traffic import require_first_timestamps
from aisimulate.spica.model_hw import max_sequence_tokens
from aisimulate.workload.formats import load_trace
from aisimulate.workload.graph_timing import normalise_graph, speed_up_graph
from aisimulate.workload.lines import relative_hint
from aisimulate.workload.sessions import normalise_starts, speed_up
from aisimulate.workload.time_doubts import time_doubts

if TYPE_CHECKING:
    from aisimulate.spica.config import SmartSearchConfig, Workload
    from aisimulate.workload.graph import AgenticGraph
    from aisimulate.workload.loaded import LoadedTrace


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """`model_context_tokens` is known without a trace too; `digest` (SHA-256) only with one.

    `is_agentic`: the trace is a graph of requests, which not all of its format need be. `sessions` counts
    those of a trace.
    """

    model_context_tokens: int | None
    digest: str | None = None
    notes: list[str] = field(default_factory=list)
    is_agentic: bool = False
    sessions: int = 0


def read_trace_facts(config: SmartSearchConfig) -> TraceFacts:
    """Read the whole trace once, so that what makes every replay fail ends the search before it starts.

    Raises:
        InputError: the file cannot be read, a line is wrong, an open-loop session has no first timestamp,
            or every prompt is too long for the model.
    """
    context_tokens = _context_tokens(config)
    if config.workload.trace_path is None:
        _check_length(config, context_tokens)
        return TraceFacts(context_tokens)
    path = Path(config.workload.trace_path)
    digest = trace_digest(path, config.folder)
    trace = _checked_trace(path, config.workload)
    notes = (
        trace.remarks + _time_doubts(trace, config.workload) + _long_rows(path, trace, config, context_tokens)
    )
    return TraceFacts(
        context_tokens, digest, notes, is_agentic=trace.graph is not None, sessions=len(trace.sessions)
    )


def _context_tokens(config: SmartSearchConfig) -> int | None:
    space = config.search_space
    try:
        return max_sequence_tokens(space.model_name, space.context_length, space.allow_model_download)
    except (ValueError, RuntimeError):
        # Enumeration asks the same question and tells the user; an injected space needs no answer.
        return None


def trace_digest(path: Path, folder: Path | None = None) -> str:
    """Give the SHA-256 of a trace, be it a file or a folder. Raises InputError where it cannot be read."""
    try:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        digest = hashlib.sha256()
        for file in files:
            if not file.is_dir():
                digest.update(file.read_bytes())
        return digest.hexdigest()
    except FileNotFoundError as error:
        problem = f"no such file{relative_hint(path)}{_beside_config(path, folder)}"
        raise InputError(f"workload.trace_path: could not read {show_path(path)}: {problem}") from error
    except (OSError, ValueError) as error:
        detail = getattr(error, "strerror", None) or error
        raise InputError(f"workload.trace_path: could not read {show_path(path)}: {detail}") from error


def _beside_config(path: Path, folder: Path | None) -> str:
    """Tell a user who meant a path relative to the config file how to write it."""
    if folder is None or path.is_absolute() or not (folder / path).is_file():
        return ""
    return f"; the config's own folder has it: write {show_path(folder / path)}"


def _checked_trace(path: Path, workload: Workload) -> LoadedTrace:
    """Read the trace, and apply the rules that every replay of it would apply."""
    trace = load_trace([path], workload.trace_format, workload.block_tokens)
    if trace.graph is not None:
        _check_graph(trace.graph, workload)
        return trace
    if workload.replay_concurrency is None:
        require_first_timestamps(trace)
    speed_up(normalise_starts(trace.sessions), workload.arrival_speedup_ratio)
    return trace


def _time_doubts(trace: LoadedTrace, workload: Workload) -> list[str]:
    """Ask about odd times, where they pace the replays."""
    if trace.graph is not None or workload.replay_concurrency is not None:
        return []
    return time_doubts(trace.sessions, workload.trace_format, workload.arrival_speedup_ratio)


def _check_graph(graph: AgenticGraph, workload: Workload) -> None:
    cap = workload.replay_concurrency
    if cap is not None:
        raise InputError(f"workload.replay_concurrency: {cap}: an agentic trace does not support it")
    speed_up_graph(normalise_graph(graph), workload.arrival_speedup_ratio)


def _long_rows(
    path: Path, trace: LoadedTrace, config: SmartSearchConfig, context_tokens: int | None
) -> list[str]:
    """Note the rows that every replay rejects; raise when no other row is left."""
    if context_tokens is None:
        return []
    prompts = [turn.input_tokens for session in trace.sessions for turn in session.turns]
    too_long = sum(tokens >= context_tokens for tokens in prompts)
    if not too_long:
        return []
    limit = f"{context_tokens} tokens ({_limit_name(config)}) or more; every replay rejects them"
    if too_long == len(prompts):
        raise InputError(f"{path}: all {too_long} rows have prompts of {limit}")
    return [f"{too_long} of {len(prompts)} trace rows have prompts of {limit}"]


def _check_length(config: SmartSearchConfig, context_tokens: int | None) -> None:
    isl = config.workload.isl
    if context_tokens is not None and isl is not None and isl >= context_tokens:
        raise InputError(
            f"workload.isl: {isl} is not below {context_tokens} tokens ({_limit_name(config)}); every replay "
            "would reject such requests"
        )


def _limit_name(config: SmartSearchConfig) -> str:
    space = config.search_space
    if space.context_length is not None:
        return "search_space.context_length"
    return f"the maximum of {space.model_name}"
