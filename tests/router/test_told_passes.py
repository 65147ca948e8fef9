"""A plain rank under a router is replayed with fewer questions than others; each can be asked of it, too."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from aisimulate.engine import cache_view, told_worker
from aisimulate.replay import routing
from aisimulate.replay.execute import execute

from .routed import payload


def rank(rng: Random) -> dict[str, Any]:
    """Two blocks have one id; few requests fit, and nearly every block taken evicts another."""
    return {
        "block_size": 4,
        "num_gpu_blocks": rng.choice([14, 20, 30]),
        "max_num_batched_tokens": rng.choice([16, 32]),
        "timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0},
    }


def rows(rng: Random, begin: list[int]) -> list[dict[str, Any]]:
    """Prompts that share beginnings, some at once, most longer than a pass; all begin with these ids."""
    at_ms, drawn = 0.0, []
    for number in range(30):
        at_ms += rng.choice([0, 0, 1, 8, 30, 100]) * rng.random()
        root = rng.randint(1, 3)
        ids = begin + [10 * root + place for place in range(rng.randint(0, 5 - len(begin)))]
        ids += [1000 + 10 * number + place for place in range(rng.randint(not ids, 5 - len(ids)))]
        tokens = 8 * len(ids) - rng.randint(0, 7)
        output = rng.choice([1, 1, 2, 5, 20, 50])
        drawn.append(
            {"timestamp": round(at_ms, 3), "input_length": tokens, "output_length": output, "hash_ids": ids}
        )
    return drawn


def report(asked: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in execute(asked).items() if "wall" not in key and "processed" not in key
    }


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("begin", [[], [7]], ids=["several", "one"])
def test_it_comes_to_the_same(
    begin: list[int], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many first ids there are: what is found of one is kept in mind."""
    rng = Random(seed)
    asked = payload(rows(rng, begin), tmp_path, block=8, rank=rank(rng), workers=rng.randint(1, 3))
    short = report(asked)
    with monkeypatch.context() as patched:
        patched.setattr(told_worker, "plan_alone", lambda rank, now_ns: False)
        assert report(asked) == short, "every pass is planned by the planner"
        patched.setattr(routing, "outlook_of", cache_view.view_of)
        assert report(asked) == short, "blocks are evicted when they are taken"
