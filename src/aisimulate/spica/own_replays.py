"""Our own replay, as a search asks for it. Who imports this has imported the whole simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.replay.early_stop import execute_first_sessions, execute_until_settled
from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.checker import InvariantChecker

if TYPE_CHECKING:
    from collections.abc import Mapping


def replay_whole(payload: Mapping[str, Any], *, check: bool) -> dict[str, Any]:
    """Replay to the end; `check`: and hold it to the invariants."""
    return execute(payload, observers=[InvariantChecker()]) if check else execute(payload)


def replay_part(payload: Mapping[str, Any], *, sessions: int | None) -> dict[str, Any]:
    """Replay that many first sessions of a trace, or with None a closed loop until it has settled."""
    return execute_until_settled(payload) if sessions is None else execute_first_sessions(payload, sessions)
