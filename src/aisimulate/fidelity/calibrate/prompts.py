"""What the prompts of a log hold, for prefix reuse: token ids or ids of blocks, one JSON object a line."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import InputError
from aisimulate.core.shown import show

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aisimulate.fidelity.calibrate.request_log import RequestLog

_TOKEN_FIELDS = ("input_tok_ids", "input_token_ids", "prompt_token_ids", "token_ids")
_BLOCK_FIELDS = ("hash_ids", "block_hashes")


def with_prompts(log: RequestLog, path: Path, block_tokens: int) -> RequestLog:
    """Give the log the content of its prompts, line k of the file that of its k-th request in file order.

    A line has token ids (`input_tok_ids`, ...) or ids of blocks of `block_tokens` tokens (`hash_ids` or
    `block_hashes`); blocks behind the last id are shared by nobody. Raises `InputError` when lines and
    requests do not fit.
    """
    rows = list(_prompts(path, block_tokens))
    if not rows:
        raise InputError(f"{path}: the file is empty")
    seen: dict[Any, int] = {}
    ids: list[list[int]] = []
    for number, place in enumerate(log.place):
        if place >= len(rows):
            raise InputError(f"{path}: has {len(rows)} prompts, but the log has a request {place + 1}")
        blocks, tokens = rows[place]
        expected = log.input_tokens[number]
        if tokens not in (None, expected) or len(blocks) > -(-expected // block_tokens):
            shown = f"{len(blocks)} blocks" if tokens is None else f"{tokens} tokens"
            raise InputError(f"{path}:{place + 1}: {shown}, but the log's prompt has {expected} tokens")
        numbered = [seen.setdefault(block, len(seen)) for block in blocks]
        for spare in range(-(-expected // block_tokens) - len(numbered)):
            # A block that is not told stands for something that nobody shares.
            numbered.append(seen.setdefault((number, spare, None), len(seen)))
        ids.append(numbered)
    return replace(log, block_ids=ids, block_tokens=block_tokens)


def has_prompts(path: Path) -> bool:
    """Whether the first line of a log itself has token ids or ids of blocks."""
    first = next(_objects(path), None)
    return first is not None and any(name in first[1] for name in (*_TOKEN_FIELDS, *_BLOCK_FIELDS))


def _prompts(path: Path, block_tokens: int) -> Iterator[tuple[list[Any], int | None]]:
    """Give the blocks of each line, and its number of tokens where it is told."""
    for number, row in _objects(path):
        tokens = next((row[name] for name in _TOKEN_FIELDS if isinstance(row.get(name), list)), None)
        if row.get("last_token_ts", True) in (None, 0):
            continue  # of a log: a request that did not end
        if tokens is not None:
            if not all(isinstance(token, int) for token in tokens):
                raise InputError(f"{path}:{number}: has token ids that are no integers")
            starts = range(0, len(tokens), block_tokens)
            yield [tuple(tokens[start : start + block_tokens]) for start in starts], len(tokens)
            continue
        blocks = next((row[name] for name in _BLOCK_FIELDS if isinstance(row.get(name), list)), None)
        if blocks is None or not all(isinstance(block, int | str) for block in blocks):
            named = ", ".join((*_TOKEN_FIELDS, *_BLOCK_FIELDS))
            raise InputError(f"{path}:{number}: has no list of ids (one of {named})")
        yield blocks, None


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    value = json.loads(line)
                    if not isinstance(value, dict):
                        raise InputError(f"{path}:{number}: {show(value)} is not an object")
                    yield number, value
    except OSError as error:
        raise InputError(f"{path}: could not be read: {error.strerror or error}") from error
    except InputError:
        raise
    except (ValueError, RecursionError, EOFError) as error:
        raise InputError(f"{path}: no usable JSON Lines: {error}") from None
