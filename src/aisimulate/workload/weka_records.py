"""What a Weka trace says: the requests of one play, some of them inside subagents (spec 02 section 2.5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aisimulate.workload.block_ids import packed
from aisimulate.workload.graph_rows import choice, name_of
from aisimulate.workload.limits import MAX_HASH_ID, MAX_INSTANT_MS, MAX_PROMPT_TOKENS, MAX_TOKENS

if TYPE_CHECKING:
    from array import array

    from aisimulate.workload.jsonl import Row

EPSILON_S = 1e-6
"""Instants closer than this are the same, in s."""

_LATEST_S = MAX_INSTANT_MS / 1000
_REQUEST_TYPES = ("n", "s")
_SUBAGENT = "subagent"
_STATUSES = ("completed", "async_launched")


@dataclass(slots=True)
class WekaRequest:
    """One request; instants and durations in s.

    `source` names it within its play, `order` is its place among its siblings; both break ties of `start_s`.
    `api_time_s` is the recorded duration; one that is not known counts as 0.
    """

    source: str
    order: int
    start_s: float
    model: str
    input_tokens: int
    output_tokens: int
    hashes: array[int]
    api_time_s: float | None
    place: str

    @property
    def end_s(self) -> float:
        """When its answer was complete."""
        return self.start_s + (self.api_time_s or 0.0)

    @property
    def rank(self) -> tuple[float, int, str]:
        """Its place in time."""
        return self.start_s, self.order, self.source


@dataclass(slots=True)
class WekaSubagent:
    """Requests of an agent that another one started at `start_s`, who waited for it if it is `blocking`."""

    order: int
    name: str
    start_s: float
    blocking: bool
    duration_ms: int | None
    requests: list[WekaRequest]
    place: str


@dataclass(slots=True)
class WekaPlay:
    """One trace object. `source_name` tells it from all others of the corpus."""

    source_name: str
    trace_id: str
    block_tokens: int
    requests: list[WekaRequest] = field(default_factory=list)
    subagents: list[WekaSubagent] = field(default_factory=list)
    place: str = ""


def read_play(row: Row, source_name: str) -> WekaPlay:
    """Read one trace object. Raises InputError naming file, line, field, value and rule."""
    scope = row.given("hash_id_scope")
    if scope != "local":
        raise row.wrong("hash_id_scope", scope, "must be 'local'")
    play = WekaPlay(
        source_name, name_of(row, "id"), _whole(row, "block_size", 1, MAX_TOKENS), place=row.place
    )
    row.given("requests")
    for order, entry in enumerate(row.rows("requests")):
        if choice(entry, "type", (*_REQUEST_TYPES, _SUBAGENT)) == _SUBAGENT:
            play.subagents.append(_subagent(entry, order))
        else:
            play.requests.append(_request(entry, f"outer:{order}", order))
    if not play.requests:
        raise row.error("requests: holds no request outside of subagents")
    _check_models(row, play)
    return play


def _subagent(entry: Row, order: int) -> WekaSubagent:
    blocking = choice(entry, "status", _STATUSES) == "completed"
    entry.given("requests")
    requests = []
    for index, inner in enumerate(entry.rows("requests")):
        choice(inner, "type", _REQUEST_TYPES)
        requests.append(_request(inner, f"outer:{order}:inner:{index}", index))
    if blocking and not requests:
        raise entry.error(f"{entry.full_name('requests')} []: a completed subagent must have made requests")
    name_of(entry, "subagent_type")
    return WekaSubagent(
        order=order,
        name=name_of(entry, "agent_id"),
        start_s=_seconds(entry, "t"),
        blocking=blocking,
        duration_ms=entry.whole("duration_ms", low=0, high=int(MAX_INSTANT_MS)),
        requests=requests,
        place=entry.place,
    )


def _request(entry: Row, source: str, order: int) -> WekaRequest:
    return WekaRequest(
        source=source,
        order=order,
        start_s=_seconds(entry, "t"),
        model=name_of(entry, "model"),
        input_tokens=_whole(entry, "in", 1, MAX_PROMPT_TOKENS),
        output_tokens=_whole(entry, "out", 0, MAX_PROMPT_TOKENS),
        hashes=packed(entry.wholes("hash_ids", high=MAX_HASH_ID) or ()),
        api_time_s=None if entry.value("api_time")[1] is None else _seconds(entry, "api_time"),
        place=entry.place,
    )


def _check_models(row: Row, play: WekaPlay) -> None:
    """The models that are declared, if any are, must include those of all requests."""
    declared = row.value("models")[1]
    if not declared:
        return
    requests = play.requests + [request for agent in play.subagents for request in agent.requests]
    if not isinstance(declared, list):
        raise row.wrong("models", declared, "must be a list of names")
    for request in requests:
        if request.model not in declared:
            raise row.wrong("models", declared, f"lacks {request.model!r}, the model of {request.source}")


def _whole(row: Row, name: str, low: int, high: int) -> int:
    row.given(name)
    return row.whole(name, low=low, high=high) or 0


def _seconds(row: Row, name: str) -> float:
    row.given(name)
    value = row.number(name, limit=_LATEST_S) or 0.0
    if value < 0:
        raise row.wrong(name, value, "must not be negative")
    return value
