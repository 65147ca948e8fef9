"""The paused collector: what pauses leave behind does not pile up."""

from __future__ import annotations

import gc
import weakref

import pytest

from aisimulate.core.collector import paused_collector


class Knot:
    """Refers to itself, so that only the collector can free it."""

    def __init__(self) -> None:
        self.me = self


def leave_knots(count):
    """Pause, and leave that many knots behind; tell of the last whether it lives on."""
    with paused_collector():
        knots = [Knot() for _ in range(count)]
        return weakref.ref(knots[-1])


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch):
    gc.collect()
    monkeypatch.setattr("aisimulate.core.collector._Left.objects", 0)


def test_what_pauses_left_is_collected_before_a_later_one(monkeypatch):
    monkeypatch.setattr("aisimulate.core.collector._MOST_LEFT", 1000)
    few, many = leave_knots(500), leave_knots(1000)
    assert few() is not None and many() is not None, "too few to look for"
    leave_knots(1)
    assert few() is None and many() is None


def test_a_pause_within_a_pause_leaves_the_collector_to_the_outer_one(monkeypatch):
    monkeypatch.setattr("aisimulate.core.collector._MOST_LEFT", 0)
    with paused_collector():
        left = leave_knots(1000)
        leave_knots(1)
        assert left() is not None and not gc.isenabled()
    assert gc.isenabled()
