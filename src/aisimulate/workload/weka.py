"""Reader of Weka traces: recorded work of agents, one play per JSON object (spec 02 section 2.5)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Turn
from aisimulate.workload.block_ids import packed
from aisimulate.workload.digest import blake3_hex
from aisimulate.workload.graph import GraphSource, Node
from aisimulate.workload.graph_checks import build_graph
from aisimulate.workload.loaded import DEFAULT_BLOCK_TOKENS, LoadedTrace, graph_trace
from aisimulate.workload.weka_basis import AUTO, place_subagents
from aisimulate.workload.weka_files import corpus_digest, read_corpus
from aisimulate.workload.weka_streams import lower_play, whole_ns_ms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aisimulate.workload.weka_records import WekaPlay, WekaRequest


def read_weka(path: Path, block_tokens: int | None, nested_basis: str = AUTO) -> LoadedTrace:
    """Read a file, or all files of a folder, into the graph of its plays.

    The trace says its block size; `block_tokens` must agree with it. `nested_basis` tells whether times
    inside of subagents count from the start of the play or of the subagent. Raises InputError naming file,
    line, field, value and rule.
    """
    files, plays = read_corpus(path)
    if not plays:
        # Only when all problems are asked for, and no object was right.
        return LoadedTrace([], block_tokens or DEFAULT_BLOCK_TOKENS)
    own_tokens = _block_tokens(plays, block_tokens)
    basis = place_subagents(plays, nested_basis)
    content = _Content(own_tokens)
    nodes = [node for ordinal, play in enumerate(plays) for node in _Play(play, ordinal, content).nodes()]
    source = GraphSource("weka", corpus_digest(files, basis))
    return graph_trace(replace(build_graph(own_tokens, source, nodes), nested_basis=basis), [])


def _block_tokens(plays: list[WekaPlay], wanted: int | None) -> int:
    first = plays[0]
    for play in plays:
        if play.block_tokens != first.block_tokens:
            raise InputError(
                f"{play.place}: block_size {play.block_tokens}: differs from {first.block_tokens} at "
                f"{first.place}; a corpus has one block size"
            )
    if wanted is not None and wanted != first.block_tokens:
        raise InputError(
            f"trace_block_size {wanted} does not match the block size {first.block_tokens} that the Weka "
            f"trace says ({first.place})"
        )
    return first.block_tokens


class _Content:
    """Numbers the blocks of a corpus: ids of different plays and blocks without an id are different text."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._next = count().__next__
        self._plays: dict[str, defaultdict[int, int]] = {}

    def turn(self, play: WekaPlay, request: WekaRequest, request_id: str) -> Turn:
        """What a request asks for; the cut last block of its prompt is nobody else's."""
        full, rest = divmod(request.input_tokens, self._block_tokens)
        numbers = self._plays.setdefault(play.source_name, defaultdict(self._next))
        ids = [numbers[block] for block in request.hashes[:full]]
        ids += [self._next() for _ in range(full - len(ids) + bool(rest))]
        return Turn(request.input_tokens, request.output_tokens, packed(ids), request_id=request_id)


class _Play:
    """Makes nodes of the requests of one play."""

    def __init__(self, play: WekaPlay, ordinal: int, content: _Content) -> None:
        self._play = play
        self._ordinal = ordinal
        self._content = content
        self._space = f"weka:{blake3_hex(play.source_name.encode())[:16]}"
        self._lowered = lower_play(play)
        self._first_s = min(request.start_s for request in self._lowered.requests)

    def nodes(self) -> Iterator[Node]:
        for stream in self._lowered.streams:
            session_id = f"{self._space}:{stream.name}"
            for request in stream.requests:
                yield self._node(request, session_id)

    def _node(self, request: WekaRequest, session_id: str) -> Node:
        request_id = self._request_id(request.source)
        waits = self._lowered.waits.get(request.source, [])
        return Node(
            request_id=request_id,
            play_id=f"{self._space}:play:{self._play.trace_id}",
            session_id=session_id,
            model=request.model,
            turn=self._content.turn(self._play, request, request_id),
            not_before_ms=whole_ns_ms(request.start_s - self._first_s),
            dependencies=[replace(edge, request_id=self._request_id(edge.request_id)) for edge in waits],
            place=request.place,
            ordinal=self._ordinal,
            api_time_ms=None if request.api_time_s is None else whole_ns_ms(request.api_time_s),
        )

    def _request_id(self, source: str) -> str:
        return f"{self._space}:request:{source}"
