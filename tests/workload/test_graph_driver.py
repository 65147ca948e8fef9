"""When each request of a graph becomes ready (spec 02 section 4.4)."""

import pytest

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Turn
from aisimulate.engine.sequence import COMPLETED, REJECTED
from aisimulate.replay.agentic_traffic import require_aggregated
from aisimulate.workload.block_ids import packed
from aisimulate.workload.graph import AgenticWorkload, Dependency, GraphSource, Node, node_sessions
from aisimulate.workload.graph_checks import build_graph
from aisimulate.workload.graph_driver import GraphDriver

MS = 1_000_000


def node(name, *waits, play="p", at=0.0, output=2):
    """A request that waits for (source, trigger, delay ms) of others."""
    turn = Turn(8, output, packed([1, 2]), request_id=name)
    edges = [
        Dependency(source, trigger, delay_ms, "spawn" if trigger == "dispatch" else "join")
        for source, trigger, delay_ms in waits
    ]
    return Node(name, play, "s", "m", turn, at, edges)


def workload(*nodes, lanes=None):
    graph = build_graph(4, GraphSource("tests", "1"), nodes)
    return AgenticWorkload(node_sessions(graph.nodes), 4, graph=graph, lanes=lanes)


def driver(*nodes, lanes=None):
    return GraphDriver(workload(*nodes, lanes=lanes), 4)


def pop(feed, at_ms):
    return {s.turn.request_id: s for s in feed.pop_ready(round(at_ms * MS))}


def end(feed, sequence, at_ms, status=COMPLETED):
    sequence.worker, sequence.status = 0, status
    sequence.admissions = () if status == REJECTED else ((sequence.arrival_ns, 0),)
    feed.on_terminal(sequence, round(at_ms * MS))


def test_roots_start_when_the_trace_says():
    feed = driver(node("b", at=5.0), node("a", at=5.0), node("c", at=1.5))
    assert not feed.is_independent
    assert feed.next_ready_ns() == 1_500_000
    assert list(pop(feed, 1.5)) == ["c"]
    ready = pop(feed, 5)
    assert list(ready) == ["a", "b"]
    assert [(s.ordinal, s.arrival_ms, s.arrival_ns, s.turn_index) for s in feed.sequences] == [
        (0, 1.5, 1_500_000, None),
        (1, 5.0, 5 * MS, None),
        (2, 5.0, 5 * MS, None),
    ]
    assert feed.next_ready_ns() is None


def test_a_dispatch_may_release_others_at_once():
    feed = driver(
        node("a"), node("c", ("a", "dispatch", 0.0)), node("b", ("c", "dispatch", 0.0)), node("z", at=0.0)
    )
    assert list(pop(feed, 0)) == ["a", "c", "b", "z"]


def test_the_last_of_all_triggers_counts():
    feed = driver(
        node("a"),
        node("b"),
        node("c", ("a", "completion", 30.0), ("b", "completion", 5.0), ("a", "dispatch", 1.0), at=20.0),
    )
    ready = pop(feed, 0)
    end(feed, ready["a"], 10)
    assert feed.next_ready_ns() is None
    end(feed, ready["b"], 50)
    assert feed.next_ready_ns() == 55 * MS
    (late,) = pop(feed, 55).values()
    assert late.arrival_ms == 55.0


def test_no_request_starts_before_its_own_start():
    feed = driver(node("a"), node("b", ("a", "completion", 1.0), at=40.0))
    end(feed, pop(feed, 0)["a"], 10)
    assert feed.next_ready_ns() == 40 * MS


def test_a_failure_skips_what_has_not_been_dispatched():
    feed = driver(
        node("a"),
        node("b"),
        node("c", ("b", "completion", 0.0)),
        node("d", at=30.0),
        node("x", play="q", at=40.0),
    )
    ready = pop(feed, 0)
    end(feed, ready["a"], 10, REJECTED)
    assert feed.next_ready_ns() == 40 * MS
    end(feed, ready["b"], 20)
    assert list(pop(feed, 40)) == ["x"]
    failed, other = feed.plays.runs
    assert (failed.failure.at_ns, failed.failure.node, failed.settled_ns) == (10 * MS, 0, 20 * MS)
    assert not failed.is_completed
    assert other.settled_ns is None


def test_a_free_lane_takes_the_next_play():
    feed = driver(
        node("a", play="A", at=100.0),
        node("a2", play="A", at=103.0),
        node("b", play="B", at=7.0),
        node("c", play="C", at=50.0),
        node("c2", play="C", at=51.0),
        lanes=2,
    )
    ready = pop(feed, 0)
    assert list(ready) == ["a", "b"]
    end(feed, ready["b"], 1)
    assert feed.next_ready_ns() == 1 * MS
    assert list(pop(feed, 1)) == ["c"]
    assert feed.next_ready_ns() == 2 * MS
    assert list(pop(feed, 3)) == ["c2", "a2"]
    assert [run.lane for run in feed.plays.runs] == [0, 1, 1]
    assert [run.start_ns for run in feed.plays.runs] == [0, 0, 1 * MS]


def test_a_play_holds_its_lane_until_all_of_it_is_done():
    feed = driver(
        node("a", play="A"),
        node("b", ("a", "completion", 10.0), play="A"),
        node("c", play="B"),
        lanes=1,
    )
    end(feed, pop(feed, 0)["a"], 5)
    assert feed.next_ready_ns() == 15 * MS
    end(feed, pop(feed, 15)["b"], 20)
    assert list(pop(feed, 20)) == ["c"]


def test_lanes_freed_at_one_instant_pass_on_in_the_order_of_nodes():
    feed = driver(*(node(name, play=name) for name in "abcd"), lanes=2)
    ready = pop(feed, 0)
    end(feed, ready["b"], 5)
    end(feed, ready["a"], 5)
    pop(feed, 5)
    assert [run.lane for run in feed.plays.runs] == [0, 1, 0, 1]


def test_at_least_one_lane():
    with pytest.raises(InputError, match="agentic_lanes must be at least 1, got 0"):
        driver(node("a"), lanes=0)


def test_only_an_aggregated_pool_serves_a_graph():
    require_aggregated(workload(node("a")), "aggregated")
    with pytest.raises(InputError, match="'disaggregated': an agentic trace requires an aggregated"):
        require_aggregated(workload(node("a")), "disaggregated")
