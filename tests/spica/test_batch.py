"""The order in which the tasks of a batch wait for workers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from aisimulate.spica.batch import Batch


@dataclass
class Task:
    concurrency: int | None


@pytest.mark.parametrize(
    ("in_order", "first", "then"), [(True, [0, 1, 2, 3], [4, 5]), (False, [1, 3, 0, 2], [5, 4])]
)
def test_what_has_most_in_flight_may_be_begun_first(in_order, first, then):
    tasks = [Task(5), Task(900), Task(None), Task(900)]
    batch = Batch(tasks, None)
    batch.take_new(in_order=in_order)
    assert list(batch.waiting) == first
    tasks += [Task(None), Task(7)]
    batch.take_new(in_order=in_order)
    assert list(batch.waiting) == [*first, *then]
