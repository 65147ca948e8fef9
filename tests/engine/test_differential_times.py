"""Scaled, halved and linear pass times against the step-by-step oracle: macro-steps stay exact with them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oracle.disagg_strategies import disagg_scenarios, sglang_pair_scenarios
from oracle.sglang_strategies import sglang_scenarios
from oracle.strategies import (
    Scenario,
    cadence_scenarios,
    long_prompt_scenarios,
    outgrowing_scenarios,
    scenarios,
    turnstile_scenarios,
)
from oracle.time_strategies import retimed

from .test_differential import budget, check
from .test_differential_disagg import check as check_pair
from .test_look_ahead import ahead_scenarios


@budget(250)
@given(
    retimed(st.one_of(scenarios(), turnstile_scenarios(), outgrowing_scenarios(), long_prompt_scenarios()))
)
def test_equals_the_oracle(scenario: Scenario) -> None:
    check(scenario)


@budget(60)
@given(retimed(cadence_scenarios()))
def test_equals_the_oracle_where_prefills_keep_a_cadence(scenario: Scenario) -> None:
    check(scenario)


@budget(60)
@given(retimed(sglang_scenarios()))
def test_equals_the_oracle_with_sglang(scenario: Scenario) -> None:
    check(scenario)


@budget(100)
@given(retimed(ahead_scenarios()))
def test_equals_the_oracle_one_pass_ahead(scenario: Scenario) -> None:
    check(scenario)


@budget(80)
@given(retimed(st.one_of(disagg_scenarios(), sglang_pair_scenarios())))
def test_equals_the_oracle_in_a_pair_of_pools(scenario: Scenario) -> None:
    check_pair(scenario)
