"""The thin JSON facade of the replay: one text in, one text out."""

from __future__ import annotations

import orjson

from aisimulate.core.errors import AISimulateError, cause_chain
from aisimulate.replay.execute import execute

__all__ = ["run_replay_json"]


def run_replay_json(payload: str) -> str:
    """Replay the run described by a JSON payload and return its report as JSON.

    `payload` is an object with `spec` and `traffic`, or a bare spec whose `requests` are the traffic.
    Raises RuntimeError whose text is the chain of causes joined by `": "`.
    """
    try:
        return orjson.dumps(execute(payload)).decode()
    except AISimulateError as error:
        raise RuntimeError(f"AISimulate replay failed: {cause_chain(error)}") from error
