"""Which samplers a config may name: ours, those of extras, and those of other packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from pydantic import ValidationError
from search_fakes import SeqsEvaluator, forget_the_model, make_branch, make_config

from aisimulate.config.messages import one_line
from aisimulate.core.errors import InputError
from aisimulate.spica import sampler_names
from aisimulate.spica.config import SmartSearchConfig, SweepConfig
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.run_facts import recorded_config
from aisimulate.spica.sampler import make_branch_sampler
from aisimulate.spica.samplers.random_sampler import RandomSampler
from aisimulate.spica.search import run_search


def backwards(branch, *, study_id, objectives=None, seed):
    """A sampler of somebody else's."""
    sampler = RandomSampler(branch, seed=seed)
    draw = sampler.suggest
    sampler.suggest = lambda count: draw(count)[::-1]
    sampler.study_id = study_id
    return sampler


@pytest.fixture
def installed(monkeypatch):
    points = [
        EntryPoint("backwards", f"{__name__}:backwards", sampler_names.GROUP),
        EntryPoint("gone", "no_such_module:factory", sampler_names.GROUP),
        EntryPoint("wrong", "json:loads", sampler_names.GROUP),
    ]

    def entry_points(group, name=None):
        assert group == "aisimulate.samplers"
        return [point for point in points if name in (None, point.name)]

    monkeypatch.setattr(sampler_names, "entry_points", entry_points)


def refusal(**sweep):
    with pytest.raises(ValidationError) as caught:
        make_config(**sweep)
    return one_line(caught.value, "", SmartSearchConfig)


def test_an_unknown_sampler_is_refused_with_the_names_and_the_nearest():
    assert refusal(sampler="quasi-randon") == (
        "sweep.sampler: 'quasi-randon' is not one of auto, pool-gp, random, quasi-random, grid, focused, "
        "optuna, vizier; did you mean 'quasi-random'?"
    )


@pytest.mark.parametrize(
    ("sweep", "problem"),
    [
        ({"sampler_algorithm": "tpe"}, "the sampler auto has none to choose from; optuna and vizier have"),
        (
            {"sampler": "optuna", "sampler_algorithm": "tpee"},
            "'tpee' is not one of tpe, nsga2; did you mean 'tpe'?",
        ),
        ({"sampler": "vizier", "sampler_algorithm": "CMA_ES"}, "'CMA_ES' is not one of DEFAULT, GP_UCB_PE"),
        ({"sampler": "grid", "max_suggest_mb": 300}, "only the sampler vizier is limited, not grid"),
        ({"max_suggest_seconds": 3}, "only the sampler vizier is limited, not auto"),
    ],
)
def test_settings_of_samplers_that_have_none_are_refused(sweep, problem):
    assert problem in refusal(**sweep)


def test_a_written_out_config_is_read_again():
    sweep = make_config(sampler="grid").sweep
    assert SweepConfig.model_validate(sweep.model_dump()) == sweep


@pytest.mark.parametrize(
    ("field", "name"), [("sampler", "optuna"), ("sampler", "vizier"), ("executor", "ray")]
)
def test_a_missing_extra_is_named_with_its_installation(monkeypatch, field, name):
    forget_the_model(monkeypatch, [make_branch()])
    monkeypatch.setattr(sampler_names, "find_spec", lambda module: None)
    problem = rf"sweep\.{field}: {name} needs an extra .*: pip install 'aisimulate\[{name}\]'"
    with pytest.raises(InputError, match=problem):
        run_search(make_config(**{field: name}), evaluator=SeqsEvaluator())


def test_the_algorithm_of_the_environment_is_checked_before_anything_and_recorded(monkeypatch):
    forget_the_model(monkeypatch, [make_branch()])
    monkeypatch.setenv("SPICA_VIZIER_ALGO", "GUESS")
    with pytest.raises(InputError, match=r"SPICA_VIZIER_ALGO: 'GUESS' is not one of DEFAULT"):
        run_search(make_config(sampler="vizier"), evaluator=SeqsEvaluator())
    run_search(make_config(), evaluator=SeqsEvaluator())  # nobody else reads it
    monkeypatch.setenv("SPICA_VIZIER_ALGO", "RANDOM_SEARCH")
    monkeypatch.setattr("aisimulate.spica.plan.require_sampler", lambda name: None)
    made = []

    def factory(branch, *, study_id, objectives=None, algorithm, limits):
        made.append((algorithm, limits.max_seconds))
        return RandomSampler(branch, seed=1)

    config = make_config(sampler="vizier", max_suggest_seconds=7.0)
    result = run_search(config, evaluator=SeqsEvaluator(), sampler_factory=factory)
    assert made == [("RANDOM_SEARCH", 7.0)]
    assert result.plan.config.sweep.sampler_algorithm == "RANDOM_SEARCH"


@pytest.mark.usefixtures("installed")
def test_an_installed_sampler_is_searched_with(monkeypatch):
    forget_the_model(monkeypatch, [make_branch(seqs=range(1, 9))])
    result = run_search(
        make_config(sampler="backwards", candidates_per_round=8, random_seed=5), evaluator=SeqsEvaluator()
    )
    plain = run_search(
        make_config(sampler="random", candidates_per_round=8, random_seed=5), evaluator=SeqsEvaluator()
    )
    order = [outcome.config["agg_max_num_seqs"] for outcome in result.outcomes]
    assert order == [outcome.config["agg_max_num_seqs"] for outcome in plain.outcomes][::-1]


def test_a_recorded_search_is_read_whatever_is_installed_now(tmp_path):
    given = make_config().model_dump(mode="json")
    given["sweep"]["sampler"] = "uninstalled"
    with Ledger.create(tmp_path / "a.sqlite") as ledger:
        ledger.describe(config=given, asked=given)
        assert recorded_config(ledger, given).sweep.sampler == "uninstalled"
        with pytest.raises(InputError, match=r"sweep\.sampler: 'uninstalled' is not one of"):
            make_branch_sampler(make_branch(), study_id="s", policy="uninstalled")


@pytest.mark.usefixtures("installed")
def test_a_sampler_that_cannot_be_loaded_is_one_line():
    with pytest.raises(InputError, match=r"sweep\.sampler: gone \(no_such_module:factory\) cannot be loaded"):
        make_branch_sampler(make_branch(), study_id="s", policy="gone")
    assert (
        "auto, pool-gp, random, quasi-random, grid, focused, optuna, vizier, backwards, gone, wrong"
        in refusal(sampler="x")
    )
