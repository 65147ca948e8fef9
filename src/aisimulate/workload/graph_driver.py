"""Releases the requests of a graph: each when all it depends on has happened (spec 02 section 4.4)."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from aisimulate.core.errors import InputError
from aisimulate.core.units import clock_ns, to_ms
from aisimulate.engine.sequence import COMPLETED, Origin, Sequence
from aisimulate.workload.content import PromptSpeller, ids_are_keys
from aisimulate.workload.graph import DISPATCH
from aisimulate.workload.plays import NodeEvent, PlayRun, PlaysOutcome

if TYPE_CHECKING:
    from aisimulate.workload.graph import AgenticGraph, AgenticWorkload

# States of a node.
_BLOCKED, _READY, _DISPATCHED, _SKIPPED = range(4)

# An instant on the clock in ns, and the same in ms as the trace has it.
_Instant = tuple[int, float]

# An edge from its source: target node, delay in ns and in ms.
_Edge = tuple[int, int, float]


class GraphDriver:
    """Feeds one replay; the workload itself is only read.

    A root is ready at its authored start, another node when all its dependencies have fired: a delay after
    the dispatch or the successful end of another node, and never before its authored start. A request that
    does not complete fails its play: what has not been dispatched is skipped. With `lanes`, so many plays are
    under way at once; a play that is settled makes room for the next, which starts with its earliest root.
    `now_ns` must never fall from call to call.
    """

    is_independent = False

    def __init__(self, workload: AgenticWorkload, block_tokens: int) -> None:
        """Prepare the first plays; `block_tokens` is the engine's KV block size.

        Raises InputError when there are less than 1 lanes.
        """
        self.sequences: list[Sequence] = []  # everything dispatched so far, by ordinal
        self._graph = workload.graph
        self._sessions = workload.sessions
        self._nodes: list[int] = []  # of each sequence
        self._events: list[NodeEvent] = []
        # Which ends happened together: see `_round_of`.
        self._looks = self._round = 0
        self._call = (-1, -1, -1)
        self._prepare_content(workload, block_tokens)
        self._prepare_edges(workload.graph)
        self._heap: list[tuple[int, int]] = []  # (ready ns, node)
        self._waiting = 0  # the next play that has no lane yet
        self._free_lanes: list[tuple[int, int, int]] = []  # (freed at ns, by node, lane)
        self._start_plays(workload.lanes)

    @property
    def plays(self) -> PlaysOutcome:
        """What has become of the plays."""
        return PlaysOutcome(self._graph, self._runs, self._events)

    def next_ready_ns(self) -> int | None:
        """Instant of the next request known so far, or None."""
        self._looks += 1
        heap, state = self._heap, self._state
        while heap and state[heap[0][1]] == _SKIPPED:
            heappop(heap)
        ready_ns = heap[0][0] if heap else None
        if self._free_lanes and self._waiting < len(self._runs):
            # The earliest root of the next play will be ready at once.
            freed_ns = self._free_lanes[0][0]
            return freed_ns if ready_ns is None else min(freed_ns, ready_ns)
        return ready_ns

    def pop_ready(self, now_ns: int) -> list[Sequence]:
        """Dispatch every request ready by `now_ns`, ordered by ready instant and node.

        A dispatch may make another node ready at the same instant.
        """
        self._fill_lanes()
        due: list[Sequence] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            ready_ns, node = heappop(heap)
            if self._state[node] != _READY:
                continue
            due.append(self._dispatch(node, ready_ns))
            self._fire(self._on_dispatch[node], ready_ns)
        return due

    def pop_first(self, count: int) -> list[Sequence]:
        """Dispatch nothing: requests of a graph wait for one another."""
        return []

    def on_terminal(self, sequence: Sequence, now_ns: int) -> None:
        """Take note that a request completed or was rejected at `now_ns`."""
        node = self._nodes[sequence.ordinal]
        play = self._play_of[node]
        run = self._runs[play]
        event = NodeEvent(now_ns, node, sequence.status, self._round_of(sequence, now_ns))
        self._events.append(event)
        run.in_flight -= 1
        run.last_end_ns = now_ns
        if sequence.status == COMPLETED:
            run.unfinished -= 1
            if run.failure is None:
                self._fire(self._on_completion[node], now_ns)
        else:
            self._fail(play, event)
        if run.in_flight == 0 and (run.failure is not None or run.unfinished == 0):
            run.settled_ns = now_ns
            if run.lane is not None:
                self._free_lanes.append((now_ns, node, run.lane))

    def _round_of(self, sequence: Sequence, now_ns: int) -> int:
        """Number the groups of requests that end together.

        At one instant the passes that end are told in the order of workers, each with a look at what comes
        next. A worker that comes again, and a request that was admitted at this very instant, were in a pass
        of no length that began only afterwards.
        """
        call = now_ns, sequence.worker, self._looks
        if call != self._call:
            at_once = sequence.status == COMPLETED and sequence.admissions[-1][0] == now_ns
            if at_once or now_ns != self._call[0] or sequence.worker <= self._call[1]:
                self._round += 1
            self._call = call
        return self._round

    # Preparation ----------------------------------------------------------------------------------------

    def _prepare_content(self, workload: AgenticWorkload, block_tokens: int) -> None:
        self._stride = 1
        self._speller: PromptSpeller | None = None
        if ids_are_keys(workload, block_tokens):
            self._stride = workload.content_block_tokens // block_tokens
        else:
            self._speller = PromptSpeller(workload.content_block_tokens, block_tokens)

    def _prepare_edges(self, graph: AgenticGraph) -> None:
        nodes = graph.nodes
        index_of = {node.request_id: index for index, node in enumerate(nodes)}
        self._on_dispatch: list[list[_Edge]] = [[] for _ in nodes]
        self._on_completion: list[list[_Edge]] = [[] for _ in nodes]
        for target, node in enumerate(nodes):
            for edge in node.dependencies:
                fired = self._on_dispatch if edge.trigger == DISPATCH else self._on_completion
                fired[index_of[edge.request_id]].append((target, clock_ns(edge.delay_ms), edge.delay_ms))
        self._missing = [len(node.dependencies) for node in nodes]
        self._state = [_BLOCKED] * len(nodes)
        self._ready: list[_Instant] = [(clock_ns(node.not_before_ms), node.not_before_ms) for node in nodes]
        self._play_of = [0] * len(nodes)
        for number, play in enumerate(graph.plays):
            for node_index in play.nodes:
                self._play_of[node_index] = number
        self._runs = [PlayRun(len(play.nodes)) for play in graph.plays]

    # Plays ----------------------------------------------------------------------------------------------

    def _start_plays(self, lanes: int | None) -> None:
        if lanes is None:
            for play in self._graph.plays:
                self._release_roots(play.roots)
            return
        if lanes < 1:
            raise InputError(f"agentic_lanes must be at least 1, got {lanes}")
        for lane in range(min(lanes, len(self._runs))):
            self._start_next_play(lane, 0)

    def _fill_lanes(self) -> None:
        """Let the next plays take the free lanes; those freed at one instant in order of node."""
        if self._free_lanes:
            for at_ns, _, lane in sorted(self._free_lanes):
                self._start_next_play(lane, at_ns)
            self._free_lanes.clear()

    def _start_next_play(self, lane: int, now_ns: int) -> None:
        """Start the next play, if one is left, so that its earliest root is ready now."""
        if self._waiting == len(self._runs):
            return
        play = self._graph.plays[self._waiting]
        self._runs[self._waiting].lane = lane
        self._waiting += 1
        origin_ms = min(self._graph.nodes[root].not_before_ms for root in play.roots)
        now_ms = to_ms(now_ns)
        for node in play.nodes:
            offset_ms = max(0.0, self._graph.nodes[node].not_before_ms - origin_ms)
            self._ready[node] = now_ns + clock_ns(offset_ms), now_ms + offset_ms
        self._release_roots(play.roots)

    def _release_roots(self, roots: list[int]) -> None:
        for root in roots:
            self._release(root)

    def _fail(self, play: int, event: NodeEvent) -> None:
        run = self._runs[play]
        if run.failure is not None:
            run.failure = min(run.failure, event)
            return
        run.failure = event
        for node in self._graph.plays[play].nodes:
            if self._state[node] in (_BLOCKED, _READY):
                self._state[node] = _SKIPPED

    # Nodes ----------------------------------------------------------------------------------------------

    def _fire(self, edges: list[_Edge], now_ns: int) -> None:
        if not edges:
            return
        now_ms = to_ms(now_ns)
        for target, delay_ns, delay_ms in edges:
            if self._state[target] != _BLOCKED:
                continue
            self._ready[target] = max(self._ready[target], (now_ns + delay_ns, now_ms + delay_ms))
            self._missing[target] -= 1
            if not self._missing[target]:
                self._release(target)

    def _release(self, node: int) -> None:
        self._state[node] = _READY
        heappush(self._heap, (self._ready[node][0], node))

    def _dispatch(self, node: int, ready_ns: int) -> Sequence:
        self._state[node] = _DISPATCHED
        run = self._runs[self._play_of[node]]
        run.in_flight += 1
        if run.start_ns is None:
            run.start_ns = ready_ns
        session = self._sessions[node]
        turn = session.turns[0]
        # The engine looks keys up, slices and compares them, which arrays do as well among themselves.
        keys: list[int] | None = turn.block_ids  # type: ignore[assignment]
        planned = False
        if self._speller is not None:
            keys, planned = self._speller.spell(turn), turn.output_ids is not None
        sequence = Sequence(
            len(self.sequences),
            Origin(turn, session, session.turn_offset, self._ready[node][1]),
            ready_ns,
            turn.input_tokens,
            turn.output_tokens,
            keys,
            self._stride,
            planned,
        )
        self.sequences.append(sequence)
        self._nodes.append(node)
        self._events.append(NodeEvent(ready_ns, node, None, self._round))
        return sequence
