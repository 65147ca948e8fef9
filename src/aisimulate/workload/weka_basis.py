"""From where the times inside of subagents count (spec 02 section 2.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.workload.limits import shown
from aisimulate.workload.weka_records import EPSILON_S

if TYPE_CHECKING:
    from aisimulate.workload.weka_records import WekaPlay, WekaRequest, WekaSubagent

# What may be asked for: what fits the whole corpus, from the start of the play, of the subagent.
AUTO = "auto"
ABSOLUTE = "absolute"
RELATIVE = "relative"

NOT_APPLICABLE = "not_applicable"


def place_subagents(plays: list[WekaPlay], wanted: str) -> str:
    """Move the requests of all subagents to times of their play; return the basis that was found.

    Left to itself, the basis is relative when any request would else begin before its subagent. Raises
    InputError when one does although the times are said to be absolute.
    """
    agents = [agent for play in plays for agent in play.subagents if agent.requests]
    basis = _basis(agents) if wanted == AUTO else wanted
    for agent in agents:
        for request in agent.requests:
            _place(agent, request, basis)
    return basis


def _basis(agents: list[WekaSubagent]) -> str:
    if not agents:
        return NOT_APPLICABLE
    early = any(_is_early(agent, request) for agent in agents for request in agent.requests)
    return RELATIVE if early else ABSOLUTE


def _is_early(agent: WekaSubagent, request: WekaRequest) -> bool:
    return request.start_s < agent.start_s - EPSILON_S


def _place(agent: WekaSubagent, request: WekaRequest, basis: str) -> None:
    if basis == RELATIVE:
        request.start_s += agent.start_s
        return
    if _is_early(agent, request):
        raise InputError(
            f"{request.place}: t {request.start_s:g} of a request inside of subagent {shown(agent.name)}: "
            f"before the subagent's own t {agent.start_s:g}, so it cannot be absolute"
        )
    request.start_s = max(request.start_s, agent.start_s)
