"""Every replay keeps the invariants, and each of them can fail."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aisimulate.core.errors import InvariantError
from aisimulate.core.traffic import Session, Turn
from aisimulate.engine.sequence import Origin, Sequence
from aisimulate.replay.execute import execute
from aisimulate.replay.invariants.catalogue import Invariant
from aisimulate.replay.invariants.checker import InvariantChecker
from oracle.disagg_strategies import crowded_disagg_scenarios, disagg_scenarios
from oracle.sglang_strategies import (
    crowded_draft_scenarios,
    crowded_scenarios,
    sglang_echo_scenarios,
    sglang_scenarios,
)
from oracle.strategies import (
    Scenario,
    echo_scenarios,
    long_prompt_scenarios,
    outgrowing_scenarios,
    scenarios,
    turnstile_scenarios,
)

from .case_files import payload_of
from .observed import BASE, simulated_part
from .test_cases import EQUAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisimulate.engine.watch import WatchedWorker

ANY_SCENARIO = st.one_of(
    scenarios(),
    echo_scenarios(),
    long_prompt_scenarios(),
    outgrowing_scenarios(),
    turnstile_scenarios(),
    sglang_scenarios(),
    sglang_echo_scenarios(),
    crowded_scenarios(),
    crowded_draft_scenarios(),
    disagg_scenarios(),
    crowded_disagg_scenarios(),
)


@pytest.mark.parametrize("name", EQUAL)
def test_recorded_cases_keep_them(name: str, tmp_path: Path) -> None:
    payload = payload_of(name, tmp_path)
    checked = execute(payload, observers=[InvariantChecker(thorough=True)])
    assert simulated_part(checked) == simulated_part(execute(payload))


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(ANY_SCENARIO)
def test_random_replays_keep_them(scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as folder:
        payload = scenario.materialise(Path(folder))
        checked = execute(payload, observers=[InvariantChecker(thorough=True)])
        assert simulated_part(checked) == simulated_part(execute(payload))


def test_numbers_are_in_order() -> None:
    assert [rule.number for rule in Invariant] == [f"I{n}" for n in range(1, len(Invariant) + 1)]


def test_they_are_documented() -> None:
    text = (Path(__file__).parents[2] / "docs/observing.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| I")]
    assert rows == [[rule.number, rule.meaning] for rule in Invariant]


# Each of them can fail ---------------------------------------------------------------------------------


class Spoiled(InvariantChecker):
    """A checker that finds something changed: `at_end` after the last pass, `in_report` in the report."""

    def __init__(self, *, at_end: Callable | None = None, in_report: Callable | None = None) -> None:
        super().__init__(thorough=True)
        self._at_end = at_end
        self._in_report = in_report

    def ended(self, worker: WatchedWorker, terminal: list[Sequence]) -> None:
        if self._at_end is not None:
            self._at_end(worker, terminal)
        super().ended(worker, terminal)

    def reported(self, outcome, report) -> None:
        if self._in_report is not None:
            self._in_report(outcome, report)
        super().reported(outcome, report)


def first(outcome) -> Sequence:
    return outcome.sequences[0]


def lose_a_block(worker: WatchedWorker, _: list[Sequence]) -> None:
    worker.ranks[0]._rank.pool.room -= 1


def find_too_many(worker: WatchedWorker, _: list[Sequence]) -> None:
    worker.ranks[0]._rank.pool.room += 1000


def keep_a_block(worker: WatchedWorker, terminal: list[Sequence]) -> None:
    if terminal:
        pool = worker.ranks[0]._rank.pool
        pool.room -= 1
        pool._cached -= 1


@pytest.mark.parametrize(
    ("spoil", "number", "words"),
    [
        pytest.param({"at_end": lose_a_block}, "I3", "worker 0 rank 0 at 10 ms", id="a lost block"),
        pytest.param({"at_end": find_too_many}, "I3", "capacity 64", id="more blocks than there are"),
        pytest.param({"at_end": keep_a_block}, "I4", "1 blocks are still held", id="a block held by nobody"),
        pytest.param(
            {"in_report": lambda outcome, _: setattr(first(outcome), "status", None)},
            "I1",
            "(1, 0, 0, 1)",
            id="a request lost",
        ),
        pytest.param(
            {"in_report": lambda outcome, _: setattr(first(outcome), "tokens", 8)},
            "I2",
            "emitted 0 tokens of 3 due",
            id="a token lost",
        ),
        pytest.param(
            {"in_report": lambda outcome, _: setattr(first(outcome), "first_token_ns", 21_000_000)},
            "I6",
            "request 1 (r0): not 0 <= 0 <= 21 <= 15",
            id="the first token after the second",
        ),
        pytest.param(
            {"in_report": lambda outcome, _: setattr(first(outcome), "admissions", ((0, 0), (5, 0)))},
            "I7",
            "2 admissions, 1 of them",
            id="admitted between passes",
        ),
        pytest.param(
            {"in_report": lambda outcome, _: outcome.gap_logs[0].singles.append((5, first(outcome)))},
            "I10",
            "3 gaps",
            id="a gap too many",
        ),
        pytest.param(
            {"in_report": lambda _, report: report.update(total_output_tokens=4)},
            "I11",
            "report.total_output_tokens: 4, but the requests give 3",
            id="a wrong total",
        ),
        pytest.param(
            {"in_report": lambda _, report: report.update(max_ttft_ms=float("inf"))},
            "I12",
            "report.max_ttft_ms: inf",
            id="an infinite statistic",
        ),
        pytest.param(
            {"in_report": lambda _, report: report.update(p75_itl_ms=4.0)},
            "I12",
            "'p75': 4.0",
            id="percentiles out of order",
        ),
    ],
)
def test_a_broken_one_is_named(spoil: dict, number: str, words: str) -> None:
    with pytest.raises(InvariantError) as caught:
        execute(BASE, observers=[Spoiled(**spoil)])
    assert str(caught.value).startswith(f"{number} broken (")
    assert words in str(caught.value)


class StubRank:
    """A rank with limits and nothing else."""

    max_model_len = None

    @staticmethod
    def limits(_work: object) -> tuple[int, int]:
        return 1, 4


class StubWorker:
    """A worker that claims whatever a test wants."""

    index, number, prefills, busy, exact, end_ns, planned_passes = 0, 0, False, True, True, 10, 1
    ranks = (StubRank(),)

    def __init__(self, start_ns: int, doing: list) -> None:
        self.start_ns = start_ns
        self.doing = doing


def checker_at(now_ns: int, worker: StubWorker) -> InvariantChecker:
    checker = InvariantChecker()
    checker.begin([worker])
    checker.before(now_ns)
    return checker


def test_a_clock_that_goes_back_is_named() -> None:
    with pytest.raises(InvariantError, match=r"^I5 .* from 7 ns to 6 ns"):
        checker_at(7, StubWorker(0, [])).before(6)


def test_a_pass_that_starts_before_now_is_named() -> None:
    worker = StubWorker(6, [])
    with pytest.raises(InvariantError, match=r"^I8 .* passes start at 6 ns"):
        checker_at(7, worker).started(worker)


@pytest.mark.parametrize(("event", "state"), [("starting", "starting"), ("draining", "draining")])
def test_a_request_on_a_worker_that_takes_none_is_named(event: str, state: str) -> None:
    worker = StubWorker(6, [])
    checker = checker_at(7, worker)
    turn = Turn(8, 1)
    request = Sequence(0, Origin(turn, Session("a", [turn], 0.0), 0, 0.0), 0, 8, 1, None)
    request.rank = 0
    checker.submitted(worker, request)
    getattr(checker, event)(worker, 7)
    with pytest.raises(InvariantError, match=rf"^I14 .*request 1: placed on .* which is {state}"):
        checker.submitted(worker, request)


@pytest.mark.parametrize(("batch", "words"), [(2, "2 sequences .limit 1"), (5, "5 tokens .limit 4")])
def test_a_pass_beyond_its_limits_is_named(batch: int, words: str) -> None:
    from aisimulate.engine.pass_view import RankPass

    worker = StubWorker(7, [RankPass(0, batch, 10)])
    with pytest.raises(InvariantError, match=rf"^I9 .*{words}"):
        checker_at(7, worker).started(worker)
