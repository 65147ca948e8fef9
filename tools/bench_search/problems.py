"""The problems by name, and the best possible score of each (`data/truth.json`, made by `truth.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tools.bench_search.agg import Agg
from tools.bench_search.disagg import Disagg
from tools.bench_search.router import Router
from tools.bench_search.step_tables import DATA

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.bench_search.problem import Problem

TRUTH = DATA / "truth.json"
_QWEN, _DEEPSEEK = "qwen3_235b_h200", "deepseek_v3_b200"
_ALL = ("vllm", "sglang", "trtllm")

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "disagg": lambda: Disagg("disagg", _QWEN, ("vllm", "sglang")),
    "agg": lambda: Agg("agg", _QWEN, _ALL),
    "router": lambda: Router("router", _QWEN, _ALL),
    "deepseek": lambda: Disagg("deepseek", _DEEPSEEK, _ALL),
}


def best_score(name: str) -> float:
    """Return the best possible score of a problem."""
    return float(json.loads(TRUTH.read_text())[name])
