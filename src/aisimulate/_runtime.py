"""The thin JSON facade of the replay: one text in, one text out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson

from aisimulate.core.errors import AISimulateError, cause_chain
from aisimulate.replay.execute import execute

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["run_replay_json"]


def run_replay_json(payload: str) -> str:
    """Replay the run described by a JSON payload and return its report as JSON.

    `payload` is an object with `spec` and `traffic`, or a bare spec whose `requests` are the traffic.
    Raises RuntimeError whose text is the chain of causes joined by `": "`, on one line.
    """
    try:
        return _text(execute(payload))
    except AISimulateError as error:
        raise RuntimeError(f"AISimulate replay failed: {cause_chain(error)}") from error
    except MemoryError as error:
        raise RuntimeError("AISimulate replay failed: out of memory for the report") from error
    except Exception as error:  # the contract: nothing else leaves here
        kind = type(error).__name__
        raise RuntimeError(f"AISimulate replay failed: unexpected {kind}: {cause_chain(error)}") from error


def _text(report: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(report).decode()
    except orjson.JSONEncodeError:
        # Metadata may hold whole numbers beyond 64 bits, which are echoed as they came.
        return json.dumps(report, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
