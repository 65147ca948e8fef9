"""Confidence in the data of candidates: told from their configuration, shown, and asked for."""

from __future__ import annotations

import pytest
from spica_field_table import BLOCK_FP8
from spica_walk import PAIR, PINNED, changed, look

from aisimulate.report.confidence import candidate_confidence_text, candidate_grade
from aisimulate.report.envelope import search_envelope
from aisimulate.report.ranking import ranking_text
from aisimulate.spica.confidence import config_confidence, too_low
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.evaluate import EvaluationContext
from aisimulate.spica.evaluator import ReplayEvaluator
from aisimulate.spica.outcome import Reason, Status
from aisimulate.spica.search import run_search

PLAIN = changed(BLOCK_FP8, {"search_space.model_name": "meta-llama/Meta-Llama-3.1-8B"})


@pytest.fixture
def searched(monkeypatch):
    def search(config):
        look(config, monkeypatch)  # keeps everything in this process
        return run_search(SmartSearchConfig.model_validate(config))

    return search


def test_the_grade_of_a_candidate_is_that_of_its_engine(searched):
    (block,) = searched(BLOCK_FP8).candidates
    assert candidate_grade(block) == "low"
    assert "not physical" in candidate_confidence_text(block)
    (plain,) = searched(PLAIN).candidates
    assert (candidate_grade(plain), candidate_confidence_text(plain)) == ("high", "high")
    assert too_low(plain.config, "high") is None


def test_both_pools_of_a_pair_count(searched):
    config = searched(changed(PAIR, {"workload.isl": 1000})).candidates[0].config
    assert config_confidence(config).grade == "high"
    wide = {**config, "prefill_max_num_batched_tokens": 10**6}
    assert config_confidence(wide).grade == "low"
    assert config_confidence({**config, "decode_max_num_batched_tokens": 10**6}).grade == "high"
    assert config_confidence({**config, "decode_max_num_seqs": 10**6}).grade == "low"


@pytest.mark.parametrize(
    "config", [{}, {"deployment_mode": "agg"}, {"deployment_mode": "agg", "model_name": "x"}]
)
def test_nothing_is_said_of_what_the_data_do_not_know(config):
    assert config_confidence(config) is None
    assert too_low(config, "high") is None


def test_candidates_below_the_asked_confidence_are_counted_by_reason(searched):
    result = searched(changed(BLOCK_FP8, {"goal.min_confidence": "medium"}))
    assert result.candidates == []
    (outcome,) = result.outcomes
    assert (outcome.status, outcome.category) == (Status.INFEASIBLE, Reason.LOW_CONFIDENCE)
    assert outcome.reason.startswith("confidence low: vllm")
    assert searched(changed(PLAIN, {"goal.min_confidence": "high"})).candidates


def test_an_evaluator_of_ones_own_is_not_judged_by_our_data(searched):
    from aisimulate.spica.evaluate import _doubtful

    (block,) = searched(BLOCK_FP8).candidates
    config = SmartSearchConfig.model_validate(changed(BLOCK_FP8, {"goal.min_confidence": "high"}))
    ours = ReplayEvaluator(config.workload, config.goal)
    assert _doubtful(block.config, EvaluationContext(config, evaluator=ours, backend_versions={}))
    theirs = EvaluationContext(config, evaluator=object(), backend_versions={})
    assert _doubtful(block.config, theirs) is None


def test_the_ranking_shows_grades_where_they_tell_something(searched):
    for config, shown in ((BLOCK_FP8, True), (PLAIN, False)):
        result = searched(config)
        header = ranking_text(result.plan.config.goal, result.candidates, 5).splitlines()[0]
        assert header.split()[-1].endswith("data") is shown
        (attempt,) = search_envelope(result)["attempts"]
        assert attempt["confidence"]["grade"] == ("low" if shown else "high")
        assert bool(attempt["confidence"]["reasons"]) is shown


@pytest.mark.parametrize(
    ("target", "factor"),
    [("throughput", 0.9**2), ("e2e_latency", -1 / 0.9**2), ("pareto", 0.9**2)],
)
def test_doubtful_data_cost_a_share_of_the_score_for_each_grade(searched, target, factor):
    penalised = {"goal.target": target, "goal.confidence_penalty": 0.1}
    (block,) = searched(changed(BLOCK_FP8, penalised)).candidates
    (plain,) = searched(changed(PLAIN, penalised)).candidates
    keys = {"e2e_latency": "mean_e2e_latency_ms", "throughput": "output_throughput_tok_s"}
    for candidate, share in ((block, factor), (plain, 1.0 if factor > 0 else -1.0)):
        if target == "pareto":
            per_gpu, per_user = candidate.objectives.values()
            assert per_user == pytest.approx(
                share * candidate.metrics["mean_output_token_throughput_per_user"]
            )
            assert candidate.score == per_gpu
        else:
            assert candidate.score == pytest.approx(share * candidate.metrics[keys[target]])


def test_the_table_shows_what_a_candidate_counts_as(searched):
    result = searched(changed(BLOCK_FP8, {"goal.target": "e2e_latency", "goal.confidence_penalty": 0.5}))
    title, _, row, *_ = ranking_text(result.plan.config.goal, result.candidates, 5).splitlines()
    assert title.split()[-2:] == ["counts", "as"]
    (candidate,) = result.candidates
    measured = candidate.metrics["mean_e2e_latency_ms"]
    assert float(row.split()[-1].replace(",", "")) == pytest.approx(4 * measured, rel=1e-3)


@pytest.mark.parametrize("bad", [-0.1, 1.0, True])
def test_a_penalty_is_a_share(bad):
    with pytest.raises(ValueError, match="confidence_penalty"):
        SmartSearchConfig.model_validate(changed(PINNED, {"goal.confidence_penalty": bad}))


def test_an_unknown_grade_is_refused():
    with pytest.raises(ValueError, match="min_confidence"):
        SmartSearchConfig.model_validate(changed(PINNED, {"goal.min_confidence": "sure"}))
