"""Samplers and factories that break their contract: one typed error, one line, and nothing lost."""

from __future__ import annotations

import itertools

import pytest
from search_fakes import ScriptedSampler, SeqsEvaluator, forget_the_model, make_branch, make_config, suggest

from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.spica.samplers.base import SamplerContractError, Suggestion
from aisimulate.spica.samplers.checked import CheckedSampler
from aisimulate.spica.search import run_search


@pytest.fixture(autouse=True)
def _no_model(monkeypatch):
    forget_the_model(monkeypatch, [make_branch(seqs=range(1, 101))])


class Answering(ScriptedSampler):
    """Gives one good ask first, then whatever it was made with."""

    def __init__(self, answer):
        super().__init__(None, [[suggest(3), suggest(4)]])
        self._answer = answer

    def suggest(self, count):
        return super().suggest(count) or self._answer


def search(factory, **sweep):
    config = make_config(**({"candidates_per_round": 2, "max_rounds": 2} | sweep))
    return run_search(config, evaluator=SeqsEvaluator(), sampler_factory=factory)


def always(sampler):
    return lambda branch, *, study_id, objectives=None: sampler


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (None, "Answering.suggest returned None, not a list of Suggestion"),
        (7, "Answering.suggest raised TypeError: 'int' object is not iterable"),
        (["a\nb"], "Answering.suggest returned 'a\\\\nb', which is no Suggestion with a selection"),
        ([suggest().selection], "Answering.suggest returned {'deployment_mode': 'agg', "),
        ([None], "Answering.suggest returned None, which is no Suggestion with a selection"),
        ([Suggestion(None, None)], "Answering.suggest returned Suggestion("),
        ([Suggestion({1: 2}, None)], "Answering.suggest returned Suggestion("),
        (
            [Suggestion(suggest().selection, None)],
            "Answering.suggest returned a Suggestion whose parallel_config is None",
        ),
    ],
)
def test_a_bad_answer_is_one_typed_line_with_the_results_until_then(answer, text):
    with pytest.raises(SamplerContractError) as info:
        search(always(Answering(answer)))
    message = str(info.value)
    assert message.startswith(text.replace("\\\\", "\\"))
    assert len(message.splitlines()) == 1
    assert isinstance(info.value, AISimulateError)
    assert [candidate.score for candidate in info.value.candidates] == [4.0, 3.0]


@pytest.mark.parametrize("method", ["suggest", "observe", "observe_infeasible"])
def test_an_exception_of_a_sampler_names_its_method(method):
    def explode(*args):
        raise KeyError("oops")

    sampler = ScriptedSampler(None, [[suggest(3), suggest(1000)]])
    setattr(sampler, method, explode)
    with pytest.raises(
        SamplerContractError, match=rf"^ScriptedSampler\.{method} raised KeyError: 'oops'$"
    ) as info:
        search(always(sampler))
    assert isinstance(info.value.__cause__, KeyError)


def test_any_iterable_will_do_even_an_endless_one():
    class Endless(ScriptedSampler):
        def suggest(self, count):
            return (suggest(number) for number in itertools.count(1))

    sampler = Endless(None, [])
    result = search(always(sampler), max_rounds=1)
    assert [seqs for seqs, _ in sampler.told] == [1, 2]
    assert len(result.candidates) == 2


@pytest.mark.parametrize(
    ("factory", "text"),
    [
        (None, "sampler_factory must be callable, got None"),
        ("random", "sampler_factory must be callable, got 'random'"),
        (
            always(None),
            "sampler_factory returned None, which has no suggest and no observe and no observe_infe",
        ),
        (lambda: None, "sampler_factory raised TypeError: "),
        (print, "sampler_factory raised TypeError: "),
        (dict.fromkeys, "sampler_factory raised TypeError: "),
        (max, "sampler_factory raised TypeError: "),
    ],
)
def test_a_bad_factory_is_one_typed_line(factory, text):
    with pytest.raises(SamplerContractError) as info:
        search(factory)
    assert str(info.value).startswith(text)
    assert len(str(info.value).splitlines()) == 1


def test_a_factory_without_a_signature_gets_the_two_promised_arguments():
    class Hidden:
        __signature__ = "none"

        def __call__(self, branch, *, study_id, objectives):
            return ScriptedSampler(branch, [[suggest(3), suggest(4)]])

    assert len(search(Hidden()).candidates) == 2


def test_our_own_errors_of_a_factory_pass():
    def refuse(branch, *, study_id, objectives=None):
        raise InputError("sweep.sampler: no")

    with pytest.raises(InputError, match=r"^sweep\.sampler: no$"):
        search(refuse)


def test_a_second_branch_that_breaks_keeps_the_first(monkeypatch):
    forget_the_model(monkeypatch, [make_branch(seqs=(3, 4)), make_branch(mode="disagg")])

    def factory(branch, *, study_id, objectives=None):
        return (
            ScriptedSampler(branch, [[suggest(3), suggest(4)]]) if branch.deployment_mode == "agg" else None
        )

    with pytest.raises(SamplerContractError) as info:
        search(factory)
    assert [candidate.score for candidate in info.value.candidates] == [4.0, 3.0]


def test_exactly_what_was_asked_for_is_not_too_many():
    sampler = CheckedSampler(ScriptedSampler(None, [[suggest(1), suggest(2)]]))
    assert len(sampler.suggest(2)) == 2
    assert not sampler.gave_too_many
