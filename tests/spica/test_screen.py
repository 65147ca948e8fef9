"""The screen of closed loops: its limits by hand, and its figures against replays."""

from __future__ import annotations

import pytest

from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.evaluate import Prepared, measure, prepare
from aisimulate.spica.observer import SilentObserver
from aisimulate.spica.plan import plan_search
from aisimulate.spica.samplers.base import Suggestion
from aisimulate.spica.samplers.random_sampler import RandomSampler
from aisimulate.spica.screen.branch_screen import BranchScreen, no_screen_reason
from aisimulate.spica.screen.closed_loop import (
    ClosedLoop,
    ScreenPool,
    screen_aggregated,
    screen_disaggregated,
)
from aisimulate.spica.search import _context


class Steps:
    """10 ms per decode pass, 1 ms per 100 prompt tokens."""

    def prefill_ms(self, batch, new_tokens, prefix_tokens):
        return batch * new_tokens / 100

    def decode_ms(self, batch, context_tokens):
        return 10.0


def pool(**changes):
    fields = {
        "times": Steps(),
        "backend": "vllm",
        "replicas": 1,
        "ranks": 1,
        "gpus": 1,
        "max_batched_tokens": 8192,
        "max_seqs": 256,
        "kv_tokens": 1_000_000,
    }
    return ScreenPool(**(fields | changes))


def test_one_request_at_a_time():
    estimate = screen_aggregated(pool(), ClosedLoop(1000, 101, 1, 10))
    cycle_ms = 10 + 101 * 10  # its prompt, then a pass per token
    assert estimate.output_tok_s == pytest.approx(101 / cycle_ms * 1e3)
    assert estimate.e2e_ms == pytest.approx(cycle_ms)
    assert estimate.doubts == ()


def test_prompts_hold_up_the_decodes_beside_them():
    load = ClosedLoop(1000, 101, 80, 10)
    estimate = screen_aggregated(pool(), load)
    # 8 prompts of 1,000 tokens fit a pass beside 80 decodes: ten passes of 80 ms each, for every cycle.
    cycle_ms = 101 * 10 + 10 * 80
    assert estimate.output_tok_s == pytest.approx(80 * 101 / cycle_ms * 1e3)
    assert estimate.tok_s_user == pytest.approx(1e3 * (0.9 / 10 + 0.1 / 90))


def test_replicas_share_the_load():
    one = screen_aggregated(pool(), ClosedLoop(1000, 101, 20, 10))
    four = screen_aggregated(pool(replicas=4, gpus=4), ClosedLoop(1000, 101, 80, 10))
    assert four.output_tok_s / four.gpus == pytest.approx(one.output_tok_s)
    assert four.tok_s_user == pytest.approx(one.tok_s_user)


def test_slots_bound_what_is_in_flight():
    full, over = (screen_aggregated(pool(max_seqs=16), ClosedLoop(500, 101, count, 10)) for count in (16, 64))
    assert over.output_tok_s == pytest.approx(full.output_tok_s)
    assert over.ttft_ms > 10 * full.ttft_ms


@pytest.mark.parametrize(
    ("changes", "load", "doubt"),
    [
        ({"kv_tokens": 20_000}, ClosedLoop(1000, 1000, 30, 10), "KV cache under pressure"),
        ({"backend": "sglang", "ranks": 4}, ClosedLoop(1000, 100, 8, 10), "few requests per rank"),
        ({"max_batched_tokens": 512}, ClosedLoop(1000, 100, 4, 10), "prompts longer than a pass"),
    ],
)
def test_doubts(changes, load, doubt):
    assert doubt in screen_aggregated(pool(**changes), load).doubts


def test_a_pair_goes_at_the_pace_of_its_slower_half():
    load = ClosedLoop(1000, 101, 200, 10)
    slow = screen_disaggregated(pool(max_seqs=1), pool(), load)
    fast = screen_disaggregated(pool(max_seqs=1, replicas=8), pool(), load)
    assert slow.output_tok_s == pytest.approx(101 / 10 * 1e3, rel=0.05)  # a prompt every 10 ms
    assert "prefill near its limit" in slow.doubts
    assert fast.output_tok_s > 1.5 * slow.output_tok_s
    assert fast.tok_s_user == slow.tok_s_user == pytest.approx(100.0)


def search_config(**workload):
    fields = {"isl": 512, "osl": 128, "kv_load_ratio": [0.002, 0.3], "num_request_ratio": 4}
    return SmartSearchConfig(
        search_space={
            "model_name": "meta-llama/Meta-Llama-3.1-8B",
            "hardware_sku": "h200_sxm",
            "gpu_budget": 4,
            "deployment_mode": ["agg", "disagg"],
            "backend": ["vllm", "sglang"],
            "router_mode": ["round_robin"],
            "planner_scaling_policy": ["disabled"],
            "context_length": 4096,
        },
        workload=fields | workload,
        goal={"target": "pareto"},
    )


def test_estimates_are_close_to_replays():
    config = search_config()
    plan = plan_search(config)
    context = _context(plan, None, SilentObserver(), check=False)
    screen = BranchScreen(plan.config, context.backend_versions)
    errors = []
    for branch in plan.branches:
        sampler, count = RandomSampler(branch, seed=3), 0
        while count < 6:
            (suggestion,) = sampler.suggest(1)
            prepared = prepare(suggestion, context)
            if not isinstance(prepared, Prepared) or prepared.config["concurrency"] > 300:
                continue
            count += 1
            candidate = measure(prepared, context).candidate
            values = screen.objectives(suggestion.selection, suggestion.parallel_config)
            errors += [abs(a / b - 1) for a, b in zip(values, candidate.objectives.values(), strict=True)]
    errors.sort()
    assert errors[len(errors) // 2] < 0.015
    assert errors[int(0.9 * len(errors))] < 0.1


def test_a_candidate_that_cannot_run_has_no_estimate():
    config = search_config(isl=3000, osl=64)
    plan = plan_search(config)
    screen = BranchScreen(plan.config, {"vllm": "0.0.0"})
    suggestion = Suggestion({"backend": "vllm"}, plan.branches[0].parallel_configs[0])
    selection = {"agg_max_num_batched_tokens": 8192, "agg_max_num_seqs": 256, "kv_load_ratio": 0.5}
    assert screen.objectives(suggestion.selection | selection, suggestion.parallel_config) is None


@pytest.mark.parametrize(
    ("section", "changes", "reason"),
    [
        ("workload", {"kv_load_ratio": None, "request_rate": 2.0}, "fixed number of requests in flight"),
        ("workload", {"turns_per_session": 3}, "sessions"),
        ("goal", {"target": "goodput", "sla": {"e2e_ms": 9}}, "goodput cannot be screened"),
        ("search_space", {"aic_nextn": 1}, "without drafts"),
    ],
)
def test_what_cannot_be_screened_says_why(section, changes, reason):
    given = search_config().model_dump(exclude_unset=True)
    given["workload"] = dict(given["workload"])
    if section == "goal":
        given["workload"]["kv_load_ratio"] = 0.5
    given[section] = {k: v for k, v in (given[section] | changes).items() if v is not None}
    assert reason in no_screen_reason(SmartSearchConfig(**given))
    assert no_screen_reason(search_config()) is None
