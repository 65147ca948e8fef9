"""The screen of closed loops: its limits by hand, and its figures against replays."""

from __future__ import annotations

import numpy as np
import pytest
from screen_fakes import SPACE, Steps, pool

from aisimulate.core.errors import TimingError
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.evaluate import Prepared, measure, prepare
from aisimulate.spica.plan import plan_search
from aisimulate.spica.samplers.base import Suggestion
from aisimulate.spica.samplers.random_sampler import RandomSampler
from aisimulate.spica.screen.branch_screen import BranchScreen
from aisimulate.spica.screen.closed_loop import ClosedLoop, screen_aggregated, screen_disaggregated
from aisimulate.spica.screen.columns import doubt_texts
from aisimulate.spica.screen.goals import no_screen_reason
from aisimulate.spica.screen.step_book import StepBook
from aisimulate.spica.search import _context

BOOK = StepBook()
BOOK.add(Steps(100))


def load(prompt_tokens, output_tokens, *concurrency):
    return ClosedLoop(prompt_tokens, output_tokens, np.array(concurrency, dtype=float), 10)


def aggregated(asked, **changes):
    return screen_aggregated(pool(**changes), asked, BOOK)


def test_one_request_at_a_time():
    estimate = aggregated(load(1000, 101, 1))
    cycle_ms = 10 + 101 * 10  # its prompt, then a pass per token
    assert estimate.output_tok_s == pytest.approx(101 / cycle_ms * 1e3)
    assert estimate.e2e_ms == pytest.approx(cycle_ms)
    assert estimate.doubts == 0


def test_prompts_hold_up_the_decodes_beside_them():
    estimate = aggregated(load(1000, 101, 80))
    # 8 prompts of 1,000 tokens fit a pass beside 80 decodes: ten passes of 80 ms each, for every cycle.
    cycle_ms = 101 * 10 + 10 * 80
    assert estimate.output_tok_s == pytest.approx(80 * 101 / cycle_ms * 1e3)
    assert estimate.tok_s_user == pytest.approx(1e3 * (0.9 / 10 + 0.1 / 90))


def test_replicas_share_the_load():
    one = aggregated(load(1000, 101, 20))
    four = aggregated(load(1000, 101, 80), replicas=4, gpus=4)
    assert four.output_tok_s / four.gpus == pytest.approx(one.output_tok_s)
    assert four.tok_s_user == pytest.approx(one.tok_s_user)


def test_slots_bound_what_is_in_flight():
    full, over = (aggregated(load(500, 101, count), max_seqs=16) for count in (16, 64))
    assert over.output_tok_s == pytest.approx(full.output_tok_s)
    assert over.ttft_ms > 10 * full.ttft_ms


@pytest.mark.parametrize(
    ("changes", "asked", "doubt"),
    [
        ({"kv_tokens": 20_000}, load(1000, 1000, 30), "KV cache under pressure"),
        ({"splits_budget": True, "ranks": 4}, load(1000, 100, 8), "few requests per rank"),
        ({"max_batched_tokens": 512}, load(1000, 100, 4), "prompts longer than a pass"),
    ],
)
def test_doubts(changes, asked, doubt):
    assert doubt in doubt_texts(int(aggregated(asked, **changes).doubts[0]))


def test_pressure_costs_throughput():
    calm, tight = (aggregated(load(1000, 1000, 12), kv_tokens=tokens) for tokens in (24_000, 20_000))
    assert tight.output_tok_s / calm.output_tok_s == pytest.approx(1 - 0.3 * 0.2)


def test_a_long_prompt_is_computed_in_parts():
    estimate = aggregated(load(1000, 101, 1), max_batched_tokens=401)
    # 400 + 400 + 200 tokens beside one decode
    rate = (1 / 14 + 1 / 14 + 1 / 12) / 3
    assert estimate.tok_s_user == pytest.approx(1e3 * (0.97 / 10 + 0.03 * rate))


def test_a_pair_goes_at_the_pace_of_its_slower_half():
    asked = load(1000, 101, 200)
    slow = screen_disaggregated(pool(max_seqs=1), pool(), asked, BOOK)
    fast = screen_disaggregated(pool(max_seqs=1, replicas=8), pool(), asked, BOOK)
    assert slow.output_tok_s == pytest.approx(101 / 10 * 1e3, rel=0.05)  # a prompt every 10 ms
    assert "prefill near its limit" in doubt_texts(int(slow.doubts[0]))
    assert fast.output_tok_s > 1.5 * slow.output_tok_s
    assert fast.tok_s_user == slow.tok_s_user == pytest.approx(100.0)


def test_many_rows_are_as_good_as_one():
    counts = [1, 3, 17, 80, 300]
    together = screen_aggregated(pool(max_seqs=64).take([0] * 5), load(1000, 101, *counts), BOOK)
    alone = [aggregated(load(1000, 101, count), max_seqs=64) for count in counts]
    for name in ("output_tok_s", "tok_s_user", "ttft_ms", "e2e_ms"):
        assert getattr(together, name).tolist() == [getattr(each, name)[0] for each in alone]


class Curved:
    """A decode time with a bend and a jump; counts what it is asked."""

    asked = 0

    def decode_ms(self, batch, context_tokens):
        self.asked += 1
        return 5 + 0.01 * batch**1.2 + 2.0 * (batch > 200)

    def prefill_ms(self, batch, new_tokens, prefix_tokens):
        raise TimingError("no data")


def test_decode_times_are_asked_where_they_bend():
    curved, book = Curved(), StepBook()
    number = book.add(curved)
    batches = np.arange(1, 1001)
    found = book.decode_ms(np.full(1000, number), batches, 500)
    exact = np.array([Curved().decode_ms(int(batch), 500) for batch in batches])
    assert abs(found / exact - 1).max() < 0.005
    assert curved.asked < 150


def test_what_has_no_data_has_no_estimate():
    book = StepBook()
    number = book.add(Curved())
    assert np.isnan(screen_aggregated(pool(engines=number), load(100, 10, 1), book).output_tok_s)


def search_config(**workload):
    fields = {"isl": 512, "osl": 128, "kv_load_ratio": [0.002, 0.3], "num_request_ratio": 4}
    return SmartSearchConfig(
        search_space=SPACE | {"context_length": 4096},
        workload=fields | workload,
        goal={"target": "pareto"},
    )


def test_estimates_are_close_to_replays():
    config = search_config()
    plan = plan_search(config)
    context = _context(plan, None, check=False)
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
            (values,) = screen.objectives([(suggestion.selection, suggestion.parallel_config)])
            errors += [abs(a / b - 1) for a, b in zip(values, candidate.objectives.values(), strict=True)]
    errors.sort()
    assert errors[len(errors) // 2] < 0.015
    assert errors[int(0.9 * len(errors))] < 0.1


def test_a_candidate_that_cannot_run_has_no_estimate():
    config = search_config(isl=3000, osl=64)
    plan = plan_search(config)
    screen = BranchScreen(plan.config, {"vllm": "0.0.0"})
    suggestion = Suggestion(
        {"backend": "vllm", "deployment_mode": "agg"}, plan.branches[0].parallel_configs[0]
    )
    selection = {"agg_max_num_batched_tokens": 8192, "agg_max_num_seqs": 256, "kv_load_ratio": 0.5}
    assert screen.objectives([(suggestion.selection | selection, suggestion.parallel_config)]) == [None]


@pytest.mark.parametrize(
    ("section", "changes", "reason"),
    [
        ("workload", {"turns_per_session": 3}, "sessions"),
        ("goal", {"target": "goodput", "sla": {"e2e_ms": 9}}, "fixed number of requests in flight"),
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
