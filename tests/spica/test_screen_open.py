"""The screen of requests that arrive by themselves: single ranks by hand, and its order against replays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from screen_fakes import SPACE, Steps, pool

from aisimulate.core.errors import UnsupportedError
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.config_goal import SLATarget
from aisimulate.spica.evaluate import Prepared, measure, prepare
from aisimulate.spica.plan import plan_search
from aisimulate.spica.samplers.random_sampler import RandomSampler
from aisimulate.spica.screen.branch_screen import BranchScreen
from aisimulate.spica.screen.columns import doubt_texts
from aisimulate.spica.screen.goals import no_screen_reason
from aisimulate.spica.screen.open_loop import OpenLoop
from aisimulate.spica.screen.requests import Requests
from aisimulate.spica.screen.reuse import ReuseTable
from aisimulate.spica.screen.step_book import StepBook
from aisimulate.spica.search import _context

TRACE = Path(__file__).parents[2] / "examples/aisimulate/spica/traces/mooncake_conversation_1000.jsonl"


BOOK = StepBook()
BOOK.add(Steps(10))


def requests(*rows, ids=None):
    """Requests of (arrival ms, prompt, output)."""
    arrivals, prompts, outputs = np.array(rows, dtype=float).T
    prompts, turns = prompts.astype(int), np.arange(len(rows))
    return Requests(arrivals, prompts, outputs.astype(int), turns, ReuseTable(ids, prompts, turns, 100))


def served(asked, sla=None, **changes):
    loop = OpenLoop(asked, sla, BOOK, caching={"agg": True, "prefill": True})
    return loop.aggregated(pool(**changes))


def test_one_request():
    estimate = served(requests((5, 1000, 11)))
    assert estimate.ttft_ms == pytest.approx(100)
    assert estimate.e2e_ms == pytest.approx(100 + 10 * 10)
    assert estimate.output_tok_s == pytest.approx(11 / 0.205)
    assert estimate.tok_s_user == pytest.approx(100.0)


def test_a_prompt_holds_up_who_decodes():
    estimate = served(requests((0, 1000, 21), (150, 1000, 1)))
    # The first decodes from 100 ms; at 150 ms a prompt of 100 ms comes in between, a pass of its own.
    assert estimate.e2e_ms == pytest.approx((100 + 20 * 10 + 100 + 110) / 2)
    assert estimate.tok_s_user == pytest.approx(1e3 * (19 / 10 + 1 / 110) / 20)


def test_prompts_that_wait_together_end_together():
    together = served(requests((0, 1000, 1), (0, 1000, 1)))
    assert together.ttft_ms == pytest.approx(200)
    apart = served(requests((0, 1000, 1), (0, 1000, 1)), max_batched_tokens=1000)
    assert apart.ttft_ms == pytest.approx(150)


def test_slots_and_cache_bound_who_runs():
    rows = [(0, 100, 100)] * 4
    free, slots, cache = (
        served(requests(*rows), **limits) for limits in ({}, {"max_seqs": 2}, {"kv_tokens": 150})
    )
    assert slots.ttft_ms > 10 * free.ttft_ms
    assert cache.ttft_ms > 10 * free.ttft_ms
    assert "KV cache under pressure" in doubt_texts(int(cache.doubts[0]))
    assert free.doubts == 0
    # All four are let in, and outgrow the cache.
    assert "KV cache under pressure" in doubt_texts(int(served(requests(*rows), kv_tokens=450).doubts[0]))


def test_requests_go_to_the_ranks_in_turn():
    rows = [(0, 1000, 1), (0, 4000, 1), (0, 1000, 1)]
    two = served(requests(*rows), replicas=2)
    assert two.ttft_ms == pytest.approx((200 + 400 + 200) / 3)


def test_a_shared_prefix_is_computed_once():
    ids = [[1, 2, 3], [1, 2, 9], [7, 2, 9]]
    rows = [(1000 * number, 300, 1) for number in range(3)]
    assert served(requests(*rows, ids=ids)).ttft_ms == pytest.approx((30 + 10 + 30) / 3)
    small = served(requests(*rows, ids=ids), kv_tokens=100)
    assert small.ttft_ms == pytest.approx((30 + 20 + 30) / 3)  # a single block is kept, the first


def test_goodput_counts_who_meets_the_bounds():
    rows = requests((0, 1000, 11), (0, 1000, 11), (5000, 1000, 11))
    estimate = served(rows, SLATarget(ttft_ms=150, itl_ms=50))
    assert estimate.goodput_tok_s / estimate.output_tok_s == pytest.approx(1 / 3)


def test_a_pair_waits_for_its_decode_pool():
    loop = OpenLoop(requests(*[(0, 1000, 11)] * 4), None, BOOK, caching={"agg": False, "prefill": False})
    one_by_one = pool(max_seqs=1)
    wide = loop.disaggregated(one_by_one, pool())
    narrow = loop.disaggregated(one_by_one, pool(max_seqs=1))
    # Prompts are ready at 100, 200, ... ms; the first token is the first decode pass, eleven of 10 ms each.
    assert wide.ttft_ms == pytest.approx(260)
    assert wide.e2e_ms == pytest.approx(250 + 110)
    assert narrow.ttft_ms == pytest.approx((110 + 220 + 330 + 440) / 4)


def search_config(**workload):
    fields = {"trace_path": str(TRACE)} | workload
    return SmartSearchConfig(
        search_space=SPACE | {"gpu_budget": 6},
        workload={name: value for name, value in fields.items() if value is not None},
        goal={"target": "goodput_per_gpu", "sla": {"ttft_ms": 2000, "itl_ms": 50}},
    )


def rank_correlation(left, right):
    ranks = [np.argsort(np.argsort(values)) for values in (left, right)]
    return float(np.corrcoef(*ranks)[0, 1])


def test_the_order_is_that_of_replays():
    plan = plan_search(search_config())
    context = _context(plan, None, check=False)
    screen = BranchScreen(plan.config, context.backend_versions, plan.model_context_tokens)
    measured, estimated = [], []
    for branch in plan.branches:
        chosen = []
        for suggestion in RandomSampler(branch, seed=5).suggest(10):
            prepared = prepare(suggestion, context)
            assert isinstance(prepared, Prepared)
            metrics = measure(prepared, context).candidate.metrics
            keys = ("goodput_output_throughput_tok_s", "mean_ttft_ms", "mean_e2e_latency_ms")
            measured.append([metrics[key] for key in keys])
            chosen.append((suggestion.selection, suggestion.parallel_config))
        found = screen.estimate(chosen)
        estimated += np.column_stack([found.goodput_tok_s, found.ttft_ms, found.e2e_ms]).tolist()
        assert screen.estimate(chosen[::-1]).ttft_ms.tolist() == found.ttft_ms.tolist()[::-1]
    for truth, guess in zip(np.maximum(measured, 1e-9).T, np.array(estimated).T, strict=True):
        assert rank_correlation(truth, guess) > 0.97
        assert np.nanmedian(abs(guess / truth - 1)) < 0.1


def test_a_constant_rate_is_screened_as_well():
    changes = {"trace_path": None, "isl": 1000, "osl": 100, "request_rate": 5.0, "num_request_ratio": 20}
    plan = plan_search(search_config(**changes))
    screen = BranchScreen(plan.config, {"vllm": "0.24.0"}, plan.model_context_tokens)
    selection = {"backend": "vllm", "deployment_mode": "agg"}
    knobs = {"agg_max_num_batched_tokens": 8192, "agg_max_num_seqs": 256}
    estimate = screen.estimate([(selection | knobs, plan.branches[0].parallel_configs[0])])
    assert estimate.output_tok_s == pytest.approx(500, rel=0.1)
    assert 0 < estimate.ttft_ms < 100


def test_requests_that_wait_for_others_are_not_screened(tmp_path):
    path = tmp_path / "sessions.jsonl"
    rows = [
        '{"session_id": "a", "timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1]}',
        '{"session_id": "a", "delay": 5, "input_length": 20, "output_length": 2, "hash_ids": [1]}',
    ]
    path.write_text("\n".join(rows))
    plan = plan_search(search_config(trace_path=str(path)))
    with pytest.raises(UnsupportedError, match="answers to others"):
        BranchScreen(plan.config, {"vllm": "0.24.0"})
    assert "cap on requests" in no_screen_reason(search_config(replay_concurrency=8))
