"""What is on its way about a cache, looked through or looked up."""

from __future__ import annotations

from random import Random

import pytest

from aisimulate.engine import cache_changes
from aisimulate.engine.cache_changes import CacheChanges

STRIDE = 2


def chain(rng: Random) -> list[int]:
    """Contents that share beginnings: after an id another one may follow, at any depth."""
    return [rng.randrange(3) + 3 * depth for depth in range(rng.randint(1, 5))]


@pytest.mark.parametrize("seed", range(20))
def test_changes_are_looked_up_as_they_are_looked_through(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, now_ns = Random(seed), 0
    both = CacheChanges(100), CacheChanges(100)
    found = []
    for _ in range(300):
        now_ns += rng.randrange(4)
        ids = chain(rng)
        start = rng.randrange(len(ids) * STRIDE)
        end = rng.randint(start + 1, len(ids) * STRIDE)
        is_store = rng.random() < 0.5
        for changes in both:
            (changes.stored if is_store else changes.removed)(ids, start, end)
            changes.publish(now_ns)
        keys = chain(rng)
        limit = rng.randint(1, len(keys) * STRIDE)
        hit, answers = rng.randint(0, limit), []
        for changes, most in zip(both, (0, 10**9), strict=True):
            monkeypatch.setattr(cache_changes, "_MOST_LOOKED_THROUGH", most)
            answers.append(changes.visible(keys, STRIDE, hit, limit, now_ns))
        assert answers[0] == answers[1]
        found.append(answers[0] != hit)
    assert any(found)
    assert len(both[0].late) == len(both[1].late) < 300
