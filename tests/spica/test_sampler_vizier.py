"""The Vizier sampler on a fake study. extra_vizier.py has what needs Vizier itself."""

from __future__ import annotations

import json
import os
import sys
import time
from types import SimpleNamespace

import pytest
from fake_study import FakeStudies
from sampler_contract import SamplerContract, drain, identity, small_branch

from aisimulate.core.errors import InputError
from aisimulate.spica.samplers.guarded import Guarded, GuardTripped
from aisimulate.spica.samplers.quasi_random import QuasiRandomSampler
from aisimulate.spica.samplers.vizier_names import ALGORITHMS, vizier_algorithm
from aisimulate.spica.samplers.vizier_sampler import AskLimits, VizierSampler
from aisimulate.spica.samplers.vizier_study import set_up_jax, user_store


def make(branch=None, studies=None, seed=1, **options):
    return VizierSampler(
        branch or small_branch(),
        study_id="spica_agg_0123abcd",
        seed=seed,
        open_study=(studies or FakeStudies()).open,
        **options,
    )


class TestVizierSampler(SamplerContract):
    finite = False

    def make(self, branch, seed=1):
        return make(branch, seed=seed)


def test_the_study_is_asked_as_configured():
    studies, limits = FakeStudies(), AskLimits(5.0, 700)
    sampler = make(
        studies=studies,
        objectives=[("throughput_per_gpu", True), ("e2e_latency", False)],
        algorithm="RANDOM_SEARCH",
        limits=limits,
    )
    assert studies.opened == []  # nothing is started before the first ask
    sampler.suggest(2)
    (study,) = studies.opened
    assert study.request.study_id == "spica_agg_0123abcd"
    assert study.request.algorithm == "RANDOM_SEARCH"
    assert study.request.metrics == (("throughput_per_gpu", True), ("e2e_latency", False))
    assert 0 <= study.request.seed < 2**31
    assert (study.history, study.limits) == ([], limits)
    sampler.close()
    assert study.closed


def test_outcomes_are_told_with_what_was_projected():
    studies = FakeStudies()
    sampler = make(studies=studies)
    good, bad = sampler.suggest(2)
    sampler.observe(good, {"objective": 3.5})
    sampler.observe_infeasible(bad, "replay failed: x")
    told = studies.opened[0].completed
    assert told[1].metrics == {"objective": 3.5}
    assert (told[2].metrics, told[2].reason) == (None, "replay failed: x")
    metadata = json.loads(told[1].metadata)
    assert list(metadata) == sorted(metadata)
    assert metadata["actual_parallel_config"]["shape"]["tp"] == good.parallel_config.shape.tp
    assert metadata["requested_features"] == good.projection.requested_features


def test_a_pinned_config_has_no_metadata():
    studies = FakeStudies()
    branch = small_branch()
    config = branch.parallel_configs[3]
    sampler = make(small_branch(parallel_configs=(config,)), studies)
    (one,) = sampler.suggest(1)
    sampler.observe(one, {"objective": 1.0})
    assert studies.opened[0].completed[1].metadata is None


def test_an_ask_that_fails_is_drawn_quasi_randomly_and_said():
    studies = FakeStudies({2: "took longer than 120 s"})
    sampler = make(studies=studies)
    told = drain(sampler, 3, 1)
    instead = sampler.suggest(3)
    expected = QuasiRandomSampler(small_branch(), seed=1).suggest(3)
    assert [identity(s) for s in instead] == [identity(s) for s in expected]
    assert sampler.notes() == [
        "ask 2: vizier took longer than 120 s; suggestions were drawn quasi-randomly instead"
    ]
    for suggestion in instead:
        sampler.observe(suggestion, {"objective": 1.0})
    sampler.suggest(1)
    again = studies.opened[1]
    assert len(again.history) == len(told) + len(instead)  # it learns from what others suggested, too
    assert set(again.history[-1].values) == {parameter.name for parameter in again.request.parameters}
    assert again.request.study_id == "spica_agg_0123abcd_2"
    assert again.request.seed != studies.opened[0].request.seed


def test_after_two_failures_in_a_row_vizier_is_not_asked_again():
    studies = FakeStudies({1: "took more than 4096 MB", 2: "raised ValueError: nothing"})
    sampler = make(studies=studies)
    assert [len(sampler.suggest(4)) for _ in range(5)] == [4] * 5
    assert studies.asks == 2
    assert sampler.notes()[1].endswith("instead, as all later ones will be")


def test_what_an_earlier_study_suggested_is_told_to_the_next_one():
    studies = FakeStudies({2: "its process ended (exit code -9)"})
    sampler = make(studies=studies)
    late, early = sampler.suggest(2)
    sampler.observe(early, {"objective": 1.0})
    sampler.suggest(1)
    sampler.suggest(1)
    sampler.observe(late, {"objective": 2.0})
    again = studies.opened[1]
    assert [told.metrics for told in again.history] == [{"objective": 1.0}]
    assert [told.metrics for told in again.added] == [{"objective": 2.0}]


@pytest.mark.parametrize(
    ("asked", "environment", "found"),
    [
        (None, {}, "DEFAULT"),
        (None, {"SPICA_VIZIER_ALGO": "RANDOM_SEARCH"}, "RANDOM_SEARCH"),
        ("NSGA2", {"SPICA_VIZIER_ALGO": "RANDOM_SEARCH"}, "NSGA2"),
        (
            None,
            {"SPICA_VIZIER_ALGO": "NSGA2", "AISIMULATE_SWEEPER_VIZIER_ALGO": "GP_UCB_PE"},
            "GP_UCB_PE",
        ),
        (None, {"SPICA_VIZIER_ALGO": ""}, "DEFAULT"),
    ],
)
def test_the_config_names_the_algorithm_before_the_environment(asked, environment, found):
    assert vizier_algorithm(asked, environment) == found


def test_a_wrong_algorithm_is_refused_with_its_source_and_the_names():
    with pytest.raises(InputError, match=r"SPICA_VIZIER_ALGO: 'RANDOM' is not one of DEFAULT, GP_UCB_PE"):
        vizier_algorithm(None, {"SPICA_VIZIER_ALGO": "RANDOM"})
    assert "CMA_ES" not in ALGORITHMS


@pytest.mark.parametrize(
    ("given", "has_cuda", "platforms"),
    [({}, False, "cpu"), ({}, True, None), ({"JAX_PLATFORMS": "cuda"}, False, "cuda")],
)
def test_jax_is_kept_to_the_cpu_unless_there_is_a_plug_in_or_a_choice(given, has_cuda, platforms):
    environment = dict(given)
    set_up_jax(environment, has_cuda=has_cuda)
    assert environment.get("JAX_PLATFORMS") == platforms


def test_a_store_that_the_user_set_up_is_kept(monkeypatch):
    assert user_store() == {}
    settings = SimpleNamespace(server_endpoint="here:1", servicer_kwargs={"database_url": "sqlite:///x"})
    monkeypatch.setitem(
        sys.modules, "vizier.service.clients", SimpleNamespace(environment_variables=settings)
    )
    assert user_store() == {"server_endpoint": "here:1", "servicer_kwargs": {"database_url": "sqlite:///x"}}


class Patient:
    """Lives in a guarded process."""

    def __init__(self, factor):
        self.factor = factor
        self.calls = 0

    def times(self, number):
        self.calls += 1
        return self.calls, number * self.factor

    def hang(self):
        time.sleep(600)

    def hoard(self):
        self.kept = bytearray(400 << 20)
        time.sleep(600)

    def leave(self):
        os._exit(3)


def guarded(max_seconds=60.0, max_mb=4096.0):
    return Guarded(Patient, (3,), max_seconds=max_seconds, max_mb=max_mb)


def test_a_guarded_object_answers_until_something_goes_wrong():
    patient = guarded()
    assert [patient.call("times", 2), patient.call("times", 5)] == [(1, 6), (2, 15)]
    with pytest.raises(GuardTripped, match="raised TypeError: unsupported operand"):
        patient.call("times", {})
    assert not patient._process.is_alive()


@pytest.mark.parametrize(
    ("method", "limits", "reason"),
    [
        ("hang", {"max_seconds": 3.0}, "took longer than 3 s"),
        ("hoard", {"max_mb": 400.0}, "took more than 400 MB"),
        ("leave", {}, r"its process ended \(exit code 3\)"),
    ],
)
def test_the_guard_acts(method, limits, reason):
    patient = guarded(**limits)
    with pytest.raises(GuardTripped, match=reason):
        patient.call(method)
    assert not patient._process.is_alive()
