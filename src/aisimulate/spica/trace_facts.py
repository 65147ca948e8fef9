"""What a search must know about its trace before it starts: identity, and rows no model call can serve."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.spica.model_hw import max_sequence_tokens
from aisimulate.workload.formats import load_trace

if TYPE_CHECKING:
    from aisimulate.spica.config import SmartSearchConfig, Workload


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """`model_context_tokens` is known without a trace too; `digest` (SHA-256) only with one."""

    model_context_tokens: int | None
    digest: str | None = None
    notes: list[str] = field(default_factory=list)


def read_trace_facts(config: SmartSearchConfig) -> TraceFacts:
    """Read the whole trace once, so that a bad line ends the search before it starts.

    Raises:
        InputError: the file cannot be read, or a line is wrong.
    """
    context_tokens = _context_tokens(config)
    workload = config.workload
    if workload.trace_path is None:
        return TraceFacts(context_tokens, notes=_length_notes(workload, context_tokens))
    path = Path(workload.trace_path)
    digest = _digest(path)
    return TraceFacts(context_tokens, digest, _trace_notes(path, workload, context_tokens))


def _context_tokens(config: SmartSearchConfig) -> int | None:
    space = config.search_space
    try:
        return max_sequence_tokens(space.model_name, space.context_length)
    except (ValueError, RuntimeError):
        # Enumeration asks the same question and tells the user; an injected space needs no answer.
        return None


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        detail = error.strerror or error
        raise InputError(f"workload.trace_path: could not read {str(path)!r}: {detail}") from error


def _trace_notes(path: Path, workload: Workload, context_tokens: int | None) -> list[str]:
    sessions = load_trace([path], workload.trace_format, workload.trace_block_size)
    if context_tokens is None:
        return []
    prompts = [turn.input_tokens for session in sessions for turn in session.turns]
    too_long = sum(tokens >= context_tokens for tokens in prompts)
    if not too_long:
        return []
    return [
        f"{too_long} of {len(prompts)} trace rows have prompts of {context_tokens} tokens (the model's "
        "context) or more; every replay rejects them"
    ]


def _length_notes(workload: Workload, context_tokens: int | None) -> list[str]:
    if context_tokens is None or workload.isl is None or workload.isl < context_tokens:
        return []
    return [
        f"workload.isl {workload.isl} is not below the context length of {context_tokens} tokens; "
        "every replay rejects such requests"
    ]
