"""SGLang in production against the step-by-step oracle: random payloads, every request, every ns.

`AISIMULATE_FUZZ=5000 pytest tests/engine/test_sglang_differential.py` runs that many with fresh seeds.
"""

from __future__ import annotations

from hypothesis import given

from oracle.sglang_strategies import (
    crowded_draft_scenarios,
    crowded_scenarios,
    sglang_echo_scenarios,
    sglang_outgrowing_scenarios,
    sglang_scenarios,
    sglang_turnstile_scenarios,
)
from oracle.strategies import Scenario

from .test_differential import budget, check


@budget(200)
@given(crowded_scenarios())
def test_equals_the_oracle_where_decoders_are_retracted(scenario: Scenario) -> None:
    check(scenario)


@budget(150)
@given(crowded_draft_scenarios())
def test_equals_the_oracle_where_drafts_are_verified(scenario: Scenario) -> None:
    check(scenario)


@budget(150)
@given(sglang_scenarios())
def test_equals_the_oracle(scenario: Scenario) -> None:
    check(scenario)


@budget(75)
@given(sglang_echo_scenarios())
def test_equals_the_oracle_where_outputs_are_prompts(scenario: Scenario) -> None:
    check(scenario)


@budget(75)
@given(sglang_turnstile_scenarios())
def test_equals_the_oracle_where_requests_end_at_once(scenario: Scenario) -> None:
    check(scenario)


@budget(75)
@given(sglang_outgrowing_scenarios())
def test_equals_the_oracle_where_sessions_outgrow_the_pool(scenario: Scenario) -> None:
    check(scenario)
