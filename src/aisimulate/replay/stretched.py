"""A replay whose prompts and outputs are all longer or shorter than the traffic says, by a factor."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aisimulate.config.payload import parse_payload
from aisimulate.core.collector import paused_collector
from aisimulate.core.errors import UnsupportedError
from aisimulate.core.units import round_half_away
from aisimulate.replay.build import build_replay
from aisimulate.replay.execute import explained_limits, run_built
from aisimulate.replay.report import build_report
from aisimulate.workload.drivers import make_driver
from aisimulate.workload.graph import AgenticWorkload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aisimulate.core.traffic import Session, Turn, Workload
    from aisimulate.workload.drivers import Driver


def execute_stretched(
    payload: str | Mapping[str, Any], *, prompts: float = 1.0, outputs: float = 1.0
) -> dict[str, Any]:
    """Replay a payload with every prompt `prompts` and every output `outputs` times as long.

    What a prompt gains is content at its end that no other prompt shares. The report has no records. Raises
    like `execute`; UnsupportedError for agentic traces, and where outputs are given token by token.
    """

    def drive(workload: Workload, block_tokens: int) -> Driver:
        if isinstance(workload, AgenticWorkload):
            raise UnsupportedError("the prompts of an agentic trace follow from each other")
        return make_driver(stretched_workload(workload, prompts, outputs), block_tokens)

    with explained_limits(), paused_collector():
        started = time.perf_counter_ns()
        replay = build_replay(parse_payload(payload), drive=drive)
        return build_report(run_built(replay, started), record_per_request=False)


def stretched_workload(workload: Workload, prompts: float, outputs: float) -> Workload:
    """Make a workload of longer (or shorter) prompts and outputs; the given one stays as it is."""
    content = _Content(workload)
    sessions = [_session(session, prompts, outputs, content) for session in workload.sessions]
    return replace(workload, sessions=sessions)


class _Content:
    """Hands out content ids that no prompt of a workload has."""

    def __init__(self, workload: Workload) -> None:
        self.block_tokens = workload.content_block_tokens
        self._ids = self._unused(workload)

    @staticmethod
    def _unused(workload: Workload) -> Iterator[int]:
        turns = (turn for session in workload.sessions for turn in session.turns)
        used = {block for turn in turns for block in turn.block_ids or ()}
        number = 0
        while True:
            if number not in used:
                yield number
            number += 1

    def prompt_ids(self, turn: Turn, input_tokens: int) -> list[int] | None:
        """Give the content ids of a prompt of another length."""
        if turn.block_ids is None:
            return None
        needed = -(-input_tokens // self.block_tokens)
        ids = list(turn.block_ids[:needed])
        return ids + [next(self._ids) for _ in range(needed - len(ids))]


def _session(session: Session, prompts: float, outputs: float, content: _Content) -> Session:
    return replace(session, turns=[_turn(turn, prompts, outputs, content) for turn in session.turns])


def _turn(turn: Turn, prompts: float, outputs: float, content: _Content) -> Turn:
    input_tokens = max(1, round_half_away(turn.input_tokens * prompts))
    output_tokens = turn.output_tokens
    if outputs != 1.0:
        if turn.output_ids is not None:
            raise UnsupportedError("the outputs of this traffic are given token by token")
        output_tokens = round_half_away(turn.output_tokens * outputs)
    ids = content.prompt_ids(turn, input_tokens) if prompts != 1.0 else turn.block_ids
    return replace(turn, input_tokens=input_tokens, output_tokens=output_tokens, block_ids=ids)
